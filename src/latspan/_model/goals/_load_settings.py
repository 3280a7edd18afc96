"""
Settings that hold for every request of a load.

A field of :class:`LoadSettings` is the whole description of a setting: its default, its range, its
option of ``latspan measure``, its key under ``[traffic]`` in the file of an inference path, and
whether measurements are comparable only if they are equal in it. The command line, the reader and
the writer of files, the conditions in a recording and the comparisons follow from the fields. So a
new setting needs a field here and the code that uses it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Final

from latspan._model.goals._fields import FieldError, Form

_SETTING: Final = "latspan"


class CacheState(StrEnum):
    """State of the server's prompt cache in a load test."""

    AS_IS = "as-is"
    """Neither cleared nor filled before the test."""
    COLD = "cold"
    """Each prompt begins with a random text, so that no prefix is cached."""
    WARM = "warm"
    """The common prefix is sent before the test, so that it is cached."""


class Connections(StrEnum):
    """Connections that carry the requests of a load test."""

    REUSED = "reused"
    """A connection carries further requests after its first one."""
    NEW = "new"
    """Each request opens a connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """
    One setting of a load.

    Args:
        name: Name of the field, of the key in a file and of the condition in a recording.
        form: Form of its value.
        comment: Explanation, in the words of a newcomer.
        default: Value if neither an option nor a file sets it; ``None`` for none.
        option: Name of its option without dashes; the name without its unit if empty.
        explained: Explanation of the option if it is more than the comment.
        sets: Value that the option sets, if it takes none.
        of: Class of the values of a choice.
        minimum: Smallest value of a number.
        maximum: Largest value of a number.
        example: Value that a new file shows in a comment if the default is ``None``.
        is_condition: Whether two measurements are comparable only if they are equal in it.
        needs_api: Whether only requests to an API have it, and calls of a function do not.
        needs_rate: Whether only an open loop has it.
        unknown_without_api: Whether its value is not known if a function is called.
    """

    name: str
    form: Form
    comment: str
    default: Any = None
    option: str = ""
    explained: str = ""
    sets: Any = None
    of: type[StrEnum] = StrEnum
    minimum: float = 0
    maximum: float = math.inf
    example: str = ""
    is_condition: bool = True
    needs_api: bool = False
    needs_rate: bool = False
    unknown_without_api: bool = False

    @property
    def option_name(self) -> str:
        """Name of the option, with its dashes."""
        return f"--{self.option or self.name.removesuffix('_s').replace('_', '-')}"

    def check(self, value: float | None) -> None:
        """
        Check that a number is in the range.

        Raises:
            FieldError: It is not.
        """
        if value is not None and not self.minimum <= value <= self.maximum:
            limits = f"from {self.minimum:g} to {self.maximum:g}"
            raise FieldError(
                self.name,
                f"{{key}} must be {limits} (got {value:.6g})",
                hint=f"use a value {limits}",
            )


def _described(**description: Any) -> dict[str, Any]:
    """Return the metadata of a field, which are the arguments of its :class:`Setting`."""
    return {_SETTING: description}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSettings:
    """
    Settings that hold for every request of a load.

    Args:
        timeout_s: Time limit of each request in seconds, 0.001 to 86,400.
        max_in_flight: Maximum number of requests in flight in an open loop, 1 to 100,000; ``None``
            for no maximum.
        connections: Connections that carry the requests.
        cache: State of the prompt cache.
        seed: Seed of the arrivals and of the order of the prompts, at least 0.

    Raises:
        ConfigError: A value is outside its range.
    """

    timeout_s: float = field(
        default=60.0,
        metadata=_described(
            form=Form.NUMBER,
            comment="time limit of each request, in seconds",
            minimum=0.001,
            maximum=86_400,
        ),
    )
    max_in_flight: int | None = field(
        default=None,
        metadata=_described(
            form=Form.COUNT,
            comment="maximum in flight in an open loop; one more waits and is sent late",
            minimum=1,
            maximum=100_000,
            example="100",
            needs_rate=True,
        ),
    )
    connections: Connections = field(
        default=Connections.REUSED,
        metadata=_described(
            form=Form.CHOICE,
            comment="reused, or new: each request opens one",
            of=Connections,
            option="new-connections",
            explained="open a connection for each request",
            sets=Connections.NEW,
            needs_api=True,
            unknown_without_api=True,
        ),
    )
    cache: CacheState = field(
        default=CacheState.AS_IS,
        metadata=_described(
            form=Form.CHOICE,
            comment="the server's prompt cache: as-is, cold or warm",
            of=CacheState,
            explained="prompt cache of the server: as it is (the default), cold (each prompt begins"
            " with a unique text), or warm (a request before the load puts the common beginning of"
            " the prompts into the cache)",
            needs_api=True,
        ),
    )
    seed: int = field(
        default=0,
        metadata=_described(
            form=Form.COUNT,
            comment="same seed: same arrivals, same order of prompts",
            explained="seed of all random choices",
            is_condition=False,
        ),
    )

    def __post_init__(self) -> None:
        for setting in SETTINGS:
            value = getattr(self, setting.name)
            if setting.form is Form.NUMBER:
                object.__setattr__(self, setting.name, float(value))
            if setting.form in (Form.NUMBER, Form.COUNT):
                setting.check(value)

    def conditions(self, *, of_api: bool) -> dict[str, Any]:
        """
        Return the settings under which a recording was made, as JSON can hold them.

        Args:
            of_api: Whether the requests are sent to an API.
        """
        return {
            setting.name: getattr(self, setting.name)
            for setting in SETTINGS
            if of_api or not setting.unknown_without_api
        }


SETTINGS: Final = tuple(
    Setting(name=each.name, default=each.default, **each.metadata[_SETTING])
    for each in fields(LoadSettings)
)
"""Description of each field of :class:`LoadSettings`, in the order of a file."""

LOAD_CONDITIONS: Final = tuple(setting.name for setting in SETTINGS if setting.is_condition)
"""Names of the settings in which comparable measurements are equal."""
