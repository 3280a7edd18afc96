"""``latspan init``: writes the file of a new inference path."""

from __future__ import annotations

import argparse
from contextlib import suppress
from pathlib import Path
from typing import Final

from latspan.cli._command import Command
from latspan.cli._console import print_message
from latspan.errors import ConfigError

_DESCRIPTION: Final = """\
Writes NAME.toml into the current folder. The file describes an inference path:
one route, model, prompt template and traffic profile, with the target that its
latency must meet. Every line has a comment. The file is valid as it is; fill in
the empty values, and adjust the load and the target.

  chat            time to the first token at most 500 ms, p95
  autocomplete    complete within 150 ms, p95
  summary         complete within 10 s, p99

A file that exists already is never changed."""

_PRESETS: Final = ("chat", "autocomplete", "summary")


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="name of the inference path")
    parser.add_argument(
        "--preset",
        choices=_PRESETS,
        default=_PRESETS[0],
        help="use case that sets the target (default: %(default)s)",
    )


def _run(arguments: argparse.Namespace) -> int:
    from latspan._model.goals import SUFFIX, Preset, preset_path, toml_of

    # Both forms are accepted, as by every command that reads the file.
    name: str = arguments.name.removesuffix(SUFFIX)
    path = preset_path(name, Preset(arguments.preset))
    file = Path(f"{name}{SUFFIX}")
    _write_new(file, toml_of(path))
    (target,) = path.targets
    print_message(f"{file}: {target.label}")
    print_message(f"next: fill in endpoint, model and load, then latspan measure {name}")
    print_message(
        f"if the server reports no times, latspan measure {name} --calibrate comes first: it shows"
        " what one request alone takes, which separates queue and prefill"
    )
    return 0


def _write_new(file: Path, text: str) -> None:
    """
    Write a file that does not exist yet.

    Raises:
        ConfigError: It exists, or cannot be written.
    """
    try:
        # The mode refuses an existing file, also one that appears at this moment.
        with file.open("x", encoding="utf-8") as new:
            try:
                new.write(text)
                new.flush()
            except OSError:
                with suppress(OSError):
                    file.unlink()
                raise
    except FileExistsError:
        raise ConfigError(f"{file} exists already", hint="edit it, or use another name") from None
    except OSError as error:
        raise ConfigError(
            f"cannot write {file}: {error.strerror}",
            hint="change to a folder that you can write to",
        ) from error


COMMAND: Final = Command(
    name="init",
    summary="describe a route and its traffic: write the file of its target, load and prompts",
    description=_DESCRIPTION,
    examples=(
        ("latspan init chat", "write chat.toml, with a target for the time to the first token"),
        ("latspan init complete --preset autocomplete", "write complete.toml, for autocomplete"),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
