"""
Load tests: schedules, prompts, and the runner that sends requests and records them.

It is the bridge between the two halves of latspan: it runs requests in this process, which the live
half records, and leaves a recording for the study half.
"""

from __future__ import annotations

from latspan._load._endpoint import Endpoint
from latspan._load._measure import Display, MeasureSettings, measure
from latspan._load._plan import LoadStep, cut_to, ladder, step_of
from latspan._load._progress import Progress
from latspan._load._prompts import PromptSet, generated, prompts_like, read_prompts
from latspan._load._schedule import Schedule, replayed

__all__ = [
    "Display",
    "Endpoint",
    "LoadStep",
    "MeasureSettings",
    "Progress",
    "PromptSet",
    "Schedule",
    "cut_to",
    "generated",
    "ladder",
    "measure",
    "prompts_like",
    "read_prompts",
    "replayed",
    "step_of",
]
