"""Two gateways that sample traces, and the reasons to keep a trace, derived from its spans."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from support.backends import CONFIGS
from support.collector import collector
from support.otlp import attributes_of, free_ports

SLOW_MS: Final = 2_500
"""Replaces the configuration's 20 s, so that a test does not take that long."""

_WHICH: Final = Path(__file__).parents[1] / "backends" / "which_gateway.yaml"


@contextmanager
def gateways(
    program: Path,
    folder: Path,
    jaeger: str,
    *,
    host: str = "127.0.0.1",
    decision_wait: str = "1s",
    **variables: str,
) -> Generator[dict[str, str]]:
    """
    Run both gateways inside the block, without the random share.

    After the block, all decisions are made and all kept traces are sent. The resource attribute
    ``gateway`` of each span names its gateway.

    Args:
        program: Path of the Collector.
        folder: Folder for their logs.
        jaeger: Host and port of Jaeger for OTLP over gRPC.
        host: Address on which they listen.
        decision_wait: Time for which they wait for the spans of a trace.
        variables: Environment variables.

    Yields:
        Their addresses, by the variables of an agent.
    """
    addresses = [f"{host}:{port}" for port in free_ports(4)]
    with ExitStack() as running:
        for number in (0, 1):
            running.enter_context(
                collector(
                    program,
                    CONFIGS / "gateway.yaml",
                    folder / f"gateway-{number}.log",
                    addresses[2 + number],
                    _WHICH,
                    LATSPAN_GATEWAY=addresses[number],
                    LATSPAN_GATEWAY_HEALTH=addresses[2 + number],
                    LATSPAN_JAEGER_OTLP=jaeger,
                    LATSPAN_DECISION_WAIT=decision_wait,
                    LATSPAN_TAIL_SAMPLING_SLOW_MS=str(SLOW_MS),
                    LATSPAN_SHARE_PERCENT="0",
                    **variables,
                )
            )
        yield {"LATSPAN_GATEWAY_1": addresses[0], "LATSPAN_GATEWAY_2": addresses[1]}


def reasons(spans: list[Span]) -> set[str]:
    """Return the reasons to keep a trace."""
    found: set[str] = set()
    if any(span.status.code == Status.STATUS_CODE_ERROR for span in spans):
        found.add("failed")
    for span in spans:
        first_token = attributes_of(span.attributes).get("latspan.time_to_first_token", 0.0)
        assert isinstance(first_token, float)
        if first_token > 2:
            found.add("late first token")
    began = min(span.start_time_unix_nano for span in spans)
    if max(span.end_time_unix_nano for span in spans) - began > SLOW_MS * 1_000_000:
        found.add("slow")
    return found
