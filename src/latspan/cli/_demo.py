"""``latspan demo``: measures chats with a real model server, in one command."""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from latspan._base.shown import address, foreign
from latspan.cli._argument_types import counting_number
from latspan.cli._chats import (
    LONG_EVERY,
    OUTPUT_TOKENS,
    SLOW_EVERY,
    AgentRun,
    Chat,
    ModelServer,
    agent_runs,
    chats,
    send,
)
from latspan.cli._command import Command
from latspan.cli._console import output, print_message
from latspan.cli._progress import progress
from latspan.errors import InstrumentationError, MissingExtraError

if TYPE_CHECKING:
    from latspan._model.recording import Snapshot

_SLOTS: Final = 2
_CHATS_AT_A_TIME: Final = 4
_NOTHING_TO_SHOW: Final = 4
_LAST_EXPORT_S: Final = 10.0
_NO_EXPORT_S: Final = 1.0

_OWN_PROGRAM: Final = "latspan run --report -- python app.py"
_OWN_CODE: Final = "latspan.configure() and latspan.auto_instrument()"
_BACKEND: Final = "latspan demo --otlp-endpoint http://localhost:4318"

_DESCRIPTION: Final = f"""\
Starts llama.cpp with SmolLM2-135M on this machine (2 slots, 1 thread), sends
streamed chats to it, and shows where their time went. One chat in {LONG_EVERY} has a
prompt of about 1,000 tokens; responses have at most {OUTPUT_TOKENS} tokens. The report:

  a waterfall of the median request and of the slowest one
  percentiles of every segment, and its share of the slowest tenth's time
  time to first token, time per token, gaps, token counts
  felt speed: time until text is visible, stalls, tokens on time
  the one delay to fix; if numpy is missing or there are fewer than 20 chats,
  one sentence on what the slow requests spent their time on

With --agent, each request is a run of an agent: a chat, the tools "search" and
"calculate", and a second chat. One search in {SLOW_EVERY} is slow.

40 chats take about a minute: 50 to 70 s on two cores of a virtual machine with
other load. The report goes to stdout, progress to stderr. The server is stopped
at the end, also after Ctrl-C."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--requests",
        type=counting_number,
        default=40,
        metavar="N",
        help="chats, or runs of the agent (default: %(default)s); p99 needs 100",
    )
    parser.add_argument(
        "--concurrency",
        type=counting_number,
        metavar="N",
        help=f"how many at a time (default: {_CHATS_AT_A_TIME} chats, or {_SLOTS} runs); the server"
        f" processes {_SLOTS} chats at a time, and the others queue",
    )
    parser.add_argument(
        "--agent",
        action="store_true",
        help="run an agent with two tools instead of single chats",
    )
    parser.add_argument(
        "--otlp-endpoint",
        metavar="URL",
        help="also send spans and metrics there, for example http://localhost:4318",
    )
    parser.add_argument(
        "--scripted",
        action="store_true",
        help="use a scripted server instead of a model: a few seconds, no model needed",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON document (latspan.demo/1) instead of the tables",
    )


def _run(arguments: argparse.Namespace) -> int:
    requests: int = arguments.requests
    agent: bool = arguments.agent
    concurrency: int = arguments.concurrency or (_SLOTS if agent else _CHATS_AT_A_TIME)
    endpoint: str | None = arguments.otlp_endpoint
    scripted: bool = arguments.scripted
    as_json: bool = arguments.json

    # A missing package is reported before a minute of work, not after it.
    report = _print_json if as_json else _printer()

    import latspan

    # First, because it rejects an endpoint that is not valid.
    latspan.configure(
        endpoint=endpoint,
        export_enabled=endpoint is not None,
        service_name="latspan-demo",
        keep_records=None,
    )
    # Export failures are reported once, at the end.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    delivered = False
    try:
        work = agent_runs(requests) if agent else chats(requests)
        failures = _send(work, concurrency=concurrency, scripted=scripted)
        snapshot = latspan.snapshot()
        if not _worth_showing(snapshot, requests, failures):
            return _NOTHING_TO_SHOW
        report(snapshot)
        delivered = latspan.force_flush()
    finally:
        latspan.uninstrument()
        latspan.shutdown(_LAST_EXPORT_S if delivered else _NO_EXPORT_S)
    if not as_json:
        _print_next_steps(endpoint, delivered=delivered)
    return 0


def _send(work: Sequence[Chat | AgentRun], *, concurrency: int, scripted: bool) -> list[Exception]:
    """Do the work with a server that is stopped afterwards; return the errors."""
    import latspan

    # The version of a library is checked when it is imported.
    with suppress(ImportError):
        import_module("openai")
    if "latspan_openai" not in latspan.auto_instrument():
        raise InstrumentationError(
            "the OpenAI client could not be instrumented", hint="pip install 'latspan[demo]'"
        )
    server, name = _server(scripted=scripted)
    print_message(f"starting {name}")
    with progress(len(work), _nouns(work)) as advance:
        return send(
            work,
            server,
            concurrency=concurrency,
            headers=_naming_the_script if scripted else _no_headers,
            started=lambda: print_message(_plan(work, concurrency)),
            advance=advance,
        )


def _worth_showing(snapshot: Snapshot, requests: int, failures: Sequence[Exception]) -> bool:
    if failures:
        first = foreign(str(failures[0]))
        print_message(f"{len(failures):,} of {requests:,} requests failed, the first with: {first}")
    if len(failures) == requests:
        return False
    if not snapshot.records:
        print_message("error: no request was recorded")
        print_message("hint: unset OTEL_SDK_DISABLED, which switches latspan off")
        return False
    return True


def _server(*, scripted: bool) -> tuple[AbstractContextManager[ModelServer], str]:
    from latspan.testing import LlamaServer, Script, ScriptedServer

    if not scripted:
        server = LlamaServer(slots=_SLOTS, cache_ram_mib=0)
        return server, f"llama.cpp with SmolLM2-135M: {_SLOTS} slots, 1 thread"
    short = Script.chat(tokens=24, prefill_ms=25, gap_ms=6, prompt_tokens=44)
    long = Script.chat(
        tokens=32, prefill_ms=1_200, gap_ms=6, stalls_ms={16: 520}, prompt_tokens=994
    )
    scripts = {_script_of(long=False): short, _script_of(long=True): long}
    scripted_server = ScriptedServer(named=scripts, slots=_SLOTS)
    return scripted_server, f"a scripted server: {_SLOTS} slots, no model"


def _script_of(*, long: bool) -> str:
    return "long" if long else "short"


def _naming_the_script(chat: Chat) -> dict[str, str]:
    return {"x-latspan-script": _script_of(long=chat.long)}


def _no_headers(chat: Chat) -> dict[str, str]:
    del chat
    return {}


def _nouns(work: Sequence[Chat | AgentRun]) -> str:
    return "agent runs" if isinstance(work[0], AgentRun) else "chats"


def _plan(work: Sequence[Chat | AgentRun], concurrency: int) -> str:
    at_a_time = f"{min(concurrency, len(work)):,} at a time"
    if isinstance(work[0], AgentRun):
        slow = sum(isinstance(each, AgentRun) and each.slow for each in work)
        return f"running an agent {len(work):,} times, {at_a_time}; {slow:,} with a slow search"
    long = sum(isinstance(each, Chat) and each.long for each in work)
    return (
        f"sending {len(work):,} streamed chats, {at_a_time};"
        f" {long:,} with a prompt of some 1,000 tokens"
    )


def _printer() -> Callable[[Snapshot], None]:
    """Return the function that prints the report; raise now if its package is missing."""
    try:
        from latspan.reports import Report
    except MissingExtraError as error:
        # The demo needs more than the drawing package: its own extra includes all of them.
        raise MissingExtraError(error.package, extra="demo") from error
    from latspan._live.sdk import expectations, read_config
    from latspan.reports._process import report_of_snapshot

    def show(snapshot: Snapshot) -> None:
        from rich.console import Console

        with output() as out:
            report: Report = report_of_snapshot(snapshot, expectations(read_config({})))
            Console(highlight=False, file=out).print(report, crop=False)

    return show


def _print_json(snapshot: Snapshot) -> None:
    from latspan._study.render.report_json import demo_document

    with output() as out:
        print(json.dumps(demo_document(snapshot), indent=2, allow_nan=False), file=out)


def _print_next_steps(endpoint: str | None, *, delivered: bool) -> None:
    print_message("")
    _print_step("The same for your own program", _OWN_PROGRAM, guide="report")
    _print_step("In its code", _OWN_CODE, guide="instrument")
    where = address(endpoint or "")
    if endpoint is None:
        _print_step("In a backend", _BACKEND, guide="backends")
    elif delivered:
        print_message(f"Spans and metrics were sent to {where} as service latspan-demo")
    else:
        print_message(
            f"Not all spans and metrics could be sent to {where};"
            " check that a receiver listens there"
        )


def _print_step(purpose: str, step: str, *, guide: str) -> None:
    """Print what a reader can do next, and the URL of its guide where there is one."""
    print_message(f"{purpose}: {step}")
    # A clone of the repository has the guides; an installed package does not.
    path = Path(__file__).resolve().parents[3] / "docs" / "guides" / f"{guide}.md"
    if path.is_file():
        print_message(f"  {path.as_uri()}")


COMMAND: Final = Command(
    name="demo",
    summary="show where 40 chats of a real model server spend their time",
    description=_DESCRIPTION,
    examples=(
        ("latspan demo", "start a model server and show the whole report"),
        (
            "latspan demo --otlp-endpoint http://localhost:4318",
            "the same, and send traces to Jaeger, Grafana Tempo or a Collector",
        ),
        ("latspan demo --agent", "show the steps of an agent, and the tool that makes it slow"),
        ("latspan demo --scripted", "run for a few seconds, without a model"),
        (
            "latspan demo --json | jq -r .summary.sentence",
            "print what the slow requests spent their time on, for a script",
        ),
        ("latspan demo --requests 100", "send enough chats for a p99"),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
