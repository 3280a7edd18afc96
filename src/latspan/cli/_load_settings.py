"""Options of the settings of a load: each follows from its description in ``_model.goals``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from latspan._model.goals import (
    SETTINGS,
    FieldError,
    Form,
    LoadSettings,
    Setting,
    TrafficProfile,
)
from latspan.cli._argument_types import duration_s, positive_number, whole_number
from latspan.cli._judging import Arguments
from latspan.errors import ConfigError

_SECONDS: Final = "_s"
"""End of the name of a setting that is a time."""


def add_load_settings(group: Arguments) -> None:
    """Add the option of each setting of a load; an option that is not given is ``None``."""
    for setting in SETTINGS:
        known: dict[str, Any] = {"dest": setting.name, "help": _help(setting)}
        if setting.sets is not None:
            group.add_argument(
                setting.option_name, action="store_const", const=setting.sets, **known
            )
        elif setting.form is Form.CHOICE:
            group.add_argument(
                setting.option_name, type=setting.of, choices=list(setting.of), **known
            )
        else:
            read, metavar = _type_of(setting)
            group.add_argument(setting.option_name, type=read, metavar=metavar, **known)


def load_settings(arguments: argparse.Namespace, traffic: TrafficProfile | None) -> LoadSettings:
    """
    Return the settings of a load: of the command line, else of a file, else the defaults.

    Raises:
        ConfigError: A number is outside its range.
    """
    values: dict[str, Any] = {}
    for setting in SETTINGS:
        given = getattr(arguments, setting.name)
        in_file = setting.default if traffic is None else getattr(traffic, setting.name)
        values[setting.name] = in_file if given is None else given
    try:
        return LoadSettings(**values)
    except FieldError as error:
        option = next(each.option_name for each in SETTINGS if each.name == error.field)
        raise ConfigError(
            error.template.replace("{key}", option),
            hint=error.hint_template.replace("{key}", option),
        ) from None


def effective_settings(
    load: LoadSettings, arguments: argparse.Namespace, *, has_api: bool, has_rate: bool
) -> LoadSettings:
    """
    Return the settings without those of a file that an option of the load leaves without effect.

    Args:
        load: The settings.
        arguments: The command line.
        has_api: Whether requests are sent to an API; otherwise a function is called.
        has_rate: Whether the load is an open loop.

    Raises:
        ConfigError: A setting has no effect, and no option of the load is the reason.
    """
    without_effect: dict[str, Any] = {}
    for setting in SETTINGS:
        if getattr(load, setting.name) == setting.default:
            continue
        if setting.needs_api and not has_api:
            raise ConfigError(
                f"{setting.option_name} changes requests to an API, not the calls of a function",
                hint="let the function do it",
            )
        if not setting.needs_rate or has_rate:
            continue
        if getattr(arguments, setting.name) is not None:
            raise ConfigError(
                f"{setting.option_name} needs a rate: in a closed loop, --concurrency is the number"
                " in flight",
                hint="add --rate, for example 2, or set --concurrency alone",
            )
        without_effect[setting.name] = setting.default
    return replace(load, **without_effect)


def _help(setting: Setting) -> str:
    text = setting.explained or setting.comment
    if setting.form is Form.CHOICE or setting.default is None:
        return text
    unit = "s" if setting.name.endswith(_SECONDS) else ""
    return f"{text.removesuffix(', in seconds')} (default: {setting.default:g}{unit})"


def _type_of(setting: Setting) -> tuple[Callable[[str], object], str]:
    if setting.name.endswith(_SECONDS):
        return duration_s, "TIME"
    if setting.form is Form.COUNT:
        return partial(whole_number, minimum=int(setting.minimum)), "N"
    return positive_number, "X"
