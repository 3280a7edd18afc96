"""Fields of an inference path: the forms that they have in its file, and the error about one."""

from __future__ import annotations

from enum import Enum, auto

from latspan.errors import ConfigError


class Form(Enum):
    """Form of a value in a file."""

    TEXT = auto()
    TEXTS = auto()
    NUMBER = auto()
    COUNT = auto()
    MILLISECONDS = auto()
    DATE = auto()
    CHOICE = auto()
    TABLE = auto()
    TABLES = auto()
    GOAL = auto()


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
