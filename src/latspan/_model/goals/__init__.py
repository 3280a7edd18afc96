"""
Goals, inference paths and their targets: data, validation, and the TOML file that a user edits.

The package does not depend on recordings or statistics; :mod:`latspan._study.stats` decides whether
a target is met.
"""

from __future__ import annotations

from latspan._model.goals._fields import FieldError, Form
from latspan._model.goals._goal import (
    MAX_LIMIT_NS,
    TARGET_METRICS,
    PercentileGoal,
    parse_percentile_goal,
    requested_goal,
)
from latspan._model.goals._load_settings import (
    LOAD_CONDITIONS,
    SETTINGS,
    CacheState,
    Connections,
    LoadSettings,
    Setting,
)
from latspan._model.goals._path import (
    Arrivals,
    Change,
    InferencePath,
    PromptTemplate,
    QualityCheck,
    Risk,
    TrafficProfile,
)
from latspan._model.goals._presets import Preset, preset_path
from latspan._model.goals._reader import (
    SUFFIX,
    file_of,
    files_in,
    parse_inference_path,
    read_inference_path,
)
from latspan._model.goals._target import BUDGET_COMPONENTS, Budget, Component, Target
from latspan._model.goals._writer import toml_of

__all__ = [
    "BUDGET_COMPONENTS",
    "LOAD_CONDITIONS",
    "MAX_LIMIT_NS",
    "SETTINGS",
    "SUFFIX",
    "TARGET_METRICS",
    "Arrivals",
    "Budget",
    "CacheState",
    "Change",
    "Component",
    "Connections",
    "FieldError",
    "Form",
    "InferencePath",
    "LoadSettings",
    "PercentileGoal",
    "Preset",
    "PromptTemplate",
    "QualityCheck",
    "Risk",
    "Setting",
    "Target",
    "TrafficProfile",
    "file_of",
    "files_in",
    "parse_inference_path",
    "parse_percentile_goal",
    "preset_path",
    "read_inference_path",
    "requested_goal",
    "toml_of",
]
