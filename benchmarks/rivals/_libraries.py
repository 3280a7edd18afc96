"""
Libraries that are compared, with their versions and settings.

Each environment contains the same client and SDK, so that all libraries can be compared with one
client alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

CLIENT: Final = (
    "openai>=3.54,<3.55",
    "httpx2>=2.16,<2.17",
    "pydantic>=2.14,<2.15",
    "opentelemetry-sdk>=1.45,<1.46",
    "opentelemetry-exporter-otlp-proto-http>=1.45,<1.46",
)
"""Requirements that are installed into every environment."""

SHARED: Final = ("openai", "httpx2", "httpcore2", "pydantic", "pydantic-core", "opentelemetry-sdk")
"""Distributions whose versions must be the same in every environment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """
    One instrumentation.

    Args:
        name: Name of its environment.
        title: Name in tables.
        distribution: Distribution whose version is shown; empty for none.
        requirements: Requirements to install together with :data:`CLIENT`, as pip accepts them.
        imports: Modules that an application imports to use the library.
        setting: Description of how the library is switched on.
    """

    name: str
    title: str
    distribution: str
    requirements: tuple[str, ...]
    imports: tuple[str, ...]
    setting: str


BARE: Final = Library(
    name="bare",
    title="nothing",
    distribution="",
    requirements=(),
    imports=(),
    setting="the client alone",
)

RIVALS: Final = (
    Library(
        name="official",
        title="official GenAI",
        distribution="opentelemetry-instrumentation-genai-openai",
        requirements=("opentelemetry-instrumentation-genai-openai>=1.3b0,<1.4",),
        imports=("opentelemetry.instrumentation.genai.openai",),
        setting="tracer and meter provider of the SDK; content is off by default",
    ),
    Library(
        name="openllmetry",
        title="OpenLLMetry",
        distribution="opentelemetry-instrumentation-openai",
        requirements=("opentelemetry-instrumentation-openai>=0.62.4,<0.63",),
        imports=("opentelemetry.instrumentation.openai",),
        setting="tracer and meter provider of the SDK; content is on by default",
    ),
    Library(
        name="openinference",
        title="OpenInference",
        distribution="openinference-instrumentation-openai",
        requirements=("openinference-instrumentation-openai>=0.1.66,<0.2",),
        imports=("openinference.instrumentation.openai",),
        setting="tracer provider of the SDK; it records no metrics; content is on by default",
    ),
    Library(
        name="langfuse",
        title="Langfuse",
        distribution="langfuse",
        requirements=("langfuse>=5.0.4,<5.1",),
        imports=("langfuse", "langfuse.openai"),
        setting=(
            "offline: placeholder keys, a host without a server, its own processor with"
            " `span_exporter=`; it records no metrics; content is on by default"
        ),
    ),
    Library(
        name="logfire",
        title="Logfire",
        distribution="logfire",
        requirements=("logfire>=5.2,<5.3",),
        imports=("logfire",),
        setting=(
            "`send_to_logfire=False, console=False, inspect_arguments=False`, exporter and reader"
            " as additional ones; content is on by default"
        ),
    ),
)

LATSPAN: Final = Library(
    name="latspan",
    title="latspan",
    distribution="latspan",
    requirements=("--editable", ".[openai]"),
    imports=("latspan",),
    setting="this checkout; histograms are always filled; content is never kept",
)

LIBRARIES: Final = (*RIVALS, LATSPAN)
