"""Results of commands on an inference path, kept for ``latspan status`` and ``document``."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from latspan._base.shown import HIDDEN, foreign
from latspan.cli._console import print_message
from latspan.errors import RecordingError

if TYPE_CHECKING:
    from latspan._model.goals import InferencePath, Target
    from latspan._study.loop import Task

_MAX_NAMES: Final = 10
"""Number of inference paths that a message lists."""

_CONTENT: Final = "--body"
"""Option whose value is a part of each request."""
_HIDING: Final = frozenset({_CONTENT, "--options", "--after-options"})
"""Options whose value may hold fields of requests."""


@dataclass(frozen=True, slots=True)
class NamedPath:
    """
    Inference path that a command works on, as it was when the command began.

    Args:
        file: Its file.
        path: The inference path.
        fingerprints: Fingerprints of the parts of the file.
        command: Command line, without ``latspan``.
    """

    file: Path
    path: InferencePath
    fingerprints: Mapping[str, str]
    command: str

    @property
    def open_target(self) -> Target:
        """The first target that is not met, or the first one if nothing was measured."""
        from latspan._study.loop import first_unmet, loop_of

        latest = loop_of(self.file).latest
        return self.path.targets[0] if latest is None else first_unmet(self.path, latest)

    def keep(
        self,
        task: Task,
        document: Mapping[str, object],
        *,
        exit_code: int,
        recordings: Sequence[str | os.PathLike[str]] = (),
    ) -> None:
        """
        Keep a result. If that fails, the user is informed, and the exit code stays the same.

        Args:
            task: Task that the command does.
            document: JSON document of the command.
            exit_code: Exit code of the command.
            recordings: Folders that it was computed from.
        """
        from latspan._study.loop import keep_result

        try:
            kept = keep_result(
                self.file,
                task,
                document,
                command=self.command,
                exit_code=exit_code,
                recordings=recordings,
                fingerprints=self.fingerprints,
            )
        except RecordingError as error:
            print_message(f"the result is not kept: {error.message}")
            return
        print_message(f"result: {kept}; latspan status shows the next command")


def known_paths() -> str:
    """Return a sentence about the inference paths of the current folder."""
    from latspan._model.goals import files_in

    try:
        names = [shlex.quote(each.stem) for each in files_in(Path())]
    except OSError:
        names = []
    if not names:
        return "there is no inference path in this folder; latspan init chat writes one"
    more = f" and {len(names) - _MAX_NAMES:,} more" if len(names) > _MAX_NAMES else ""
    return f"inference paths in this folder: {', '.join(names[:_MAX_NAMES])}{more}"


def named_path(what: str, arguments: argparse.Namespace) -> NamedPath | None:
    """
    Return the inference path that an argument names; ``None`` for an address or a function.

    Args:
        what: The argument.
        arguments: The whole command line.

    Raises:
        ConfigError: The file of the inference path does not exist or is invalid.
    """
    from latspan._model.goals import SUFFIX, file_of, read_inference_path
    from latspan._study.loop import fingerprints_of

    if "://" in what or (":" in what and not what.endswith(SUFFIX)):
        return None
    file = file_of(what)
    path = read_inference_path(file)
    return NamedPath(file, path, fingerprints_of(path, file), _shown(arguments.words))


def _shown(words: Sequence[str]) -> str:
    """Return a command line without fields of requests, which may be content, and without keys."""
    shown: list[str] = []
    option = ""
    for word in words:
        name, equals, value = word.partition("=")
        if option:
            shown.append(_value_shown(option, word))
            option = ""
        elif equals and name in _HIDING:
            shown.append(f"{name}={_value_shown(name, value)}")
        else:
            shown.append(word)
            option = word if word in _HIDING else ""
    return foreign(shlex.join(shown))


def _value_shown(option: str, value: str) -> str:
    """Return the value of an option that is content, or that has options of its own."""
    if option == _CONTENT:
        return HIDDEN
    try:
        return _shown(shlex.split(value))
    except ValueError:
        # A quote is open, so it is unknown where the content ends.
        return HIDDEN
