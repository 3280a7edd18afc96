"""
Catalogue of levers: what each one changes, which segments it should move, and what it may worsen.

If the client sets a lever, the lever is a condition of the recording, which shows whether it was
pulled. A lever of the server is invisible to the client, and only the measured effect shows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from latspan._base.spelling import nearest
from latspan._model.segments import SegmentName
from latspan.errors import ConfigError

_NETWORK: Final = (
    SegmentName.CONNECT,
    SegmentName.DNS,
    SegmentName.TCP,
    SegmentName.TLS,
    SegmentName.POOL_WAIT,
)
_FIRST: Final = (SegmentName.QUEUE, SegmentName.PREFILL, SegmentName.SERVER_WAIT)
_AFTER_FIRST: Final = (SegmentName.REASONING, SegmentName.DECODE, SegmentName.SERVER_WAIT)
_QUALITY: Final = "the quality of the answers"
STAGE: Final = "stage"
"""Stands for every stage of the application among the segments that a lever moves."""


@dataclass(frozen=True, slots=True)
class Lever:
    """
    One thing to change.

    Args:
        name: Name on the command line.
        summary: The change, in a few words.
        conditions: Conditions that may differ because of it, as ``latspan compare`` names them;
            ``parameters`` stands for every parameter.
        moves: Segments that it should shorten, where ``stage`` stands for every stage of the
            application; empty if that depends.
        may_hurt: What it may make worse.
        shown_by: Conditions of which at least one differs if it was pulled; empty if the lever is
            invisible to the client.
    """

    name: str
    summary: str
    conditions: tuple[str, ...] = ()
    moves: tuple[str, ...] = ()
    may_hurt: str = ""
    shown_by: tuple[str, ...] = ()


_ALL: Final = (
    Lever("other", "any other change", (), (), "anything"),
    Lever(
        "code",
        "a change of the application's code",
        ("revision",),
        (),
        "anything: read the guards",
        ("revision",),
    ),
    Lever(
        "prompt",
        "a shorter or reordered prompt",
        ("prompts", "order", "input_length", "cached", "output_length"),
        _FIRST,
        f"{_QUALITY}, and the length of the answers",
        ("prompts", "input_length"),
    ),
    Lever(
        "prefix-cache",
        "the stable part of the prompt first, or prefix caching on",
        ("cached", "prompts", "order", "cache"),
        _FIRST,
        "the memory use of the server, and so the queue under load",
    ),
    Lever(
        "output-cap",
        "a limit on the output, or a shorter form of it",
        ("parameters", "output_length"),
        _AFTER_FIRST,
        f"{_QUALITY}: answers may be cut off",
        ("parameters",),
    ),
    Lever(
        "reasoning-effort",
        "less reasoning",
        ("parameters", "output_length"),
        _AFTER_FIRST,
        _QUALITY,
        ("parameters",),
    ),
    Lever(
        "model",
        "another model or quantization",
        ("model", "response_model", "output_length", "measured"),
        (*_FIRST, SegmentName.REASONING, SegmentName.DECODE),
        _QUALITY,
        ("model", "response_model"),
    ),
    Lever(
        "speculative-decoding",
        "speculative decoding",
        (),
        _AFTER_FIRST,
        "throughput under high load",
    ),
    Lever("batching", "continuous batching, or another batch size", (), _FIRST, "decode"),
    Lever(
        "chunked-prefill",
        "smaller portions of prefill between decode steps",
        (),
        (SegmentName.DECODE, SegmentName.SERVER_WAIT),
        "prefill and so the time to the first token",
    ),
    Lever(
        "capacity",
        "more replicas, slots or faster hardware",
        ("measured",),
        (*_FIRST, SegmentName.DECODE),
        "cost",
    ),
    Lever("routing", "another route, region or provider", ("measured",), (), "availability"),
    Lever(
        "connections",
        "connections that are kept and warmed",
        ("connections",),
        _NETWORK,
        "memory for idle connections",
        ("connections",),
    ),
    Lever(
        "pool",
        "another limit of the connection pool",
        ("max_in_flight",),
        _NETWORK,
        "queue",
        ("max_in_flight",),
    ),
    Lever(
        "retries",
        "other retries, back-off or timeouts",
        ("timeout_s",),
        (SegmentName.RETRY,),
        "the share of failed requests",
        ("timeout_s",),
    ),
    Lever(
        "retrieval",
        "fewer or faster steps before the call",
        ("revision", "input_length"),
        (SegmentName.APPLICATION, SegmentName.PREPARE, SegmentName.CALL, STAGE),
        _QUALITY,
    ),
    Lever(
        "postprocessing",
        "less or concurrent work after the answer",
        ("revision",),
        (
            *(SegmentName.APPLICATION, SegmentName.POSTPROCESS),
            *(SegmentName.CONSUMER, SegmentName.STREAM_CLOSE, STAGE),
        ),
        "safety checks that are left out",
    ),
)

LEVERS: Final[dict[str, Lever]] = {lever.name: lever for lever in _ALL}
"""Levers by name."""


def lever_named(name: str) -> Lever:
    """
    Return the lever of that name.

    Raises:
        ConfigError: There is none.
    """
    if name in LEVERS:
        return LEVERS[name]
    near = nearest(name, LEVERS)
    hint = f"did you mean {near}?" if near else f"one of {', '.join(LEVERS)}"
    raise ConfigError(f"no lever '{name}'", hint=hint)
