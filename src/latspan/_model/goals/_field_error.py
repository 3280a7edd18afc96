"""Error about one field of an inference path, of a target or of a goal."""

from __future__ import annotations

from latspan.errors import ConfigError


class FieldError(ConfigError):
    """
    A field of an inference path has an invalid value.

    Args:
        field: Name of the field.
        message: Description, with ``{key}`` for the field's name: a file has names of its own.
        hint: Way to fix it, with ``{key}`` too.
    """

    def __init__(self, field: str, message: str, *, hint: str) -> None:
        super().__init__(message.replace("{key}", field), hint=hint.replace("{key}", field))
        self.field = field
        self.template = message
        self.hint_template = hint
