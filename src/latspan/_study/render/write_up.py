"""
Write-up of a pass: what was measured, found, changed and decided, in Markdown.

Every number is copied from the results of the inference path, and every statement about intent from
its file. What neither has is marked as missing, with the command that provides it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any, Final, cast

from latspan._base.nanoseconds import NS_PER_S
from latspan._base.shown import printable
from latspan._model.goals import InferencePath, Target
from latspan._model.segments import Kind
from latspan._model.text import count, in_words, listed, percent
from latspan._model.units import milliseconds
from latspan._study.compare import PercentileChange
from latspan._study.loop import (
    Loop,
    Result,
    Task,
    criteria_of,
    judgement_of,
    measurement_text,
    next_after_write_up,
)
from latspan._study.render.markdown import escaped
from latspan._study.render.marker import marked
from latspan._study.render.measurement import load_in_words

_NOT_STATED: Final = "_not stated_"
_MAX_TEXT_LENGTH: Final = 2_000
_CONDITIONS: Final = ("model", "models_returned", "cache", "cached_input", "revision")
_DECISIONS: Final = {
    "improved": "accepted",
    "no_worse": "accepted",
    "worse": "rejected",
    "inconclusive": "open",
    "not_interpretable": "open",
}


def plain(text: str) -> str:
    """Return a text of the user as one line of Markdown, or a note that there is none."""
    return escaped(printable(text, max_length=_MAX_TEXT_LENGTH)) if text else _NOT_STATED


def code(text: str) -> str:
    """Return a command or a path as Markdown."""
    return f"`{printable(text, max_length=_MAX_TEXT_LENGTH).replace('`', chr(39))}`"


def conclusion(loop: Loop) -> str:
    """Return the conclusion of the pass in a few words."""
    verification = loop.verification
    if verification is None:
        return "targets met, nothing changed" if loop.is_met else "not verified yet"
    target = verification.document["comparison"]["target"]
    verdict = "no target" if target is None else f"target {_verdict(target)}"
    return f"{in_words(judgement_of(verification))}, {verdict}"


def _verdict(target: Mapping[str, Any]) -> str:
    verdict: str = target["verdict"]
    return f"needs {target['needed']:,} more" if verdict == "undecided" else verdict


def sentence_of(result: Result | None) -> str:
    """Return the sentence of a diagnosis or a verification as Markdown."""
    return "" if result is None else escaped(result.document["sentence"])


def missing_of(loop: Loop) -> list[tuple[str, str]]:
    """Return what the write-up lacks, each part with the command that provides it."""
    tasks = _missing_tasks(loop)
    found = list(tasks.values())
    upcoming = next_after_write_up(loop)
    # The last criterion is the write-up itself.
    for each in criteria_of(loop)[:-1]:
        found += [(field, loop.edit_command) for field in each.fields]
        # The criteria of a task that is missing are met by the task.
        if not (each.is_met or each.fields or each.task in tasks):
            command = "latspan status" if upcoming is None else upcoming.command
            found.append((f'the criterion "{each.text}"', command))
    return found


def _missing_tasks(loop: Loop) -> dict[Task, tuple[str, str]]:
    """Return the tasks without a result: each with the part that is missing, and its command."""
    name, tasks = loop.name, dict[Task, tuple[str, str]]()
    if loop.baseline is None:
        tasks[Task.MEASURE] = ("a measurement before the change", f"latspan measure {name}")
    if loop.verification is None and not loop.is_met:
        if loop.diagnosis is None:
            tasks[Task.DIAGNOSE] = ("a diagnosis", f"latspan diagnose {name}")
        tasks[Task.VERIFY] = ("a verification of the change", f"latspan verify {name}")
    elif loop.verification is not None and loop.diagnosis is None:
        tasks[Task.DIAGNOSE] = ("a diagnosis before the change", f"latspan diagnose {name}")
    return tasks


def write_up_page(loop: Loop, today: date) -> str:
    """
    Return the main page: intake, baseline, cause, change, before and after, trade-off, decision.

    Args:
        loop: Where the inference path stands.
        today: Date of the page.
    """
    return marked(loop.file.stem, _page(loop, today))


def _page(loop: Loop, today: date) -> Iterator[str]:
    yield f"# {escaped(loop.path.name)}: {escaped(conclusion(loop))}"
    yield ""
    yield f"Written on {today} from the results in {code(f'results/{loop.file.stem}')}."
    for head, part in (
        ("Intake", _intake(loop.path)),
        ("Before the change", _baseline(loop)),
        ("Cause", _cause(loop)),
        ("Change", _change(loop)),
        ("Before and after", _before_and_after(loop)),
        ("Trade-off", _trade_off(loop)),
        ("Decision record", _decision(loop, today)),
        ("Definition of done", _done(loop)),
        ("Missing", _missing(loop)),
    ):
        yield from ("", f"## {head}", "")
        yield from part


def _intake(path: InferencePath) -> Iterator[str]:
    prompt, quality = path.prompt, path.quality
    yield "| | |"
    yield "|---|---|"
    for target in path.targets:
        yield from _target(target)
    for name, value in (
        ("measured", path.endpoint),
        ("route", path.route),
        ("model", path.model),
        ("provider", path.provider),
        ("routing", path.routing),
        ("must never reach a user", path.never_ship),
        ("may be traded for speed", ", ".join(path.may_give_up)),
        ("check of the quality", ": ".join(filter(None, (quality.command, quality.limit)))),
        ("prompt template", prompt.template),
        ("stable parts of the prompt", ", ".join(prompt.stable)),
        ("variable parts of the prompt", ", ".join(prompt.variable)),
        ("prompts of the measurement", prompt.prompts or "generated, of mixed lengths"),
    ):
        yield f"| {name} | {plain(value)} |"
    for risk in path.risks:
        due = "no date" if risk.due is None else f"decision by {risk.due}"
        yield f"| risk | {plain(risk.text)} ({plain(risk.owner)}, {due}) |"


def _target(target: Target) -> Iterator[str]:
    yield f"| target | {escaped(target.label)} |"
    if target.tolerated_ns is not None:
        yield f"| tolerated for a time | {milliseconds(target.tolerated_ns)} |"
    for name, value in (
        ("use case", target.use_case),
        ("load of the target", target.load),
        ("owner", target.owner),
        ("source of the limit", target.source),
    ):
        yield f"| {name} | {plain(value)} |"


def _lacking(loop: Loop, task: Task) -> Iterator[str]:
    """Yield a note that the result of a task is missing, with the command that provides it."""
    missing = _missing_tasks(loop).get(task)
    if missing is None:
        yield "Not needed: the targets are met."
    else:
        part, command = missing
        yield f"_Missing:_ {part}; {code(command)} gives it."


def _baseline(loop: Loop) -> Iterator[str]:
    result = loop.baseline
    if result is None:
        yield from _lacking(loop, Task.MEASURE)
        return
    document = result.document
    step = document["steps"][-1]
    noun = count(step["measured"], Kind(document["kind"]).value)
    validity = "valid" if document["valid"] else "INVALID"
    yield f"{result.day}, {load_in_words(step['load'])}, {noun}, {validity}."
    yield f"Recording: {code(document['recording'])}, by {code(f'latspan {result.command}')}."
    yield ""
    yield "| metric | from | n | failed | p50 | p95 | p99 |"
    yield "|---|---|---:|---:|---:|---:|---:|"
    for each in step["latencies"]:
        cells = [_percentile(each["all"], name) for name in ("p50", "p95", "p99")]
        numbers = [f"{each['n']:,}", f"{each['failed']:,}", *cells]
        yield f"| {code(each['metric'])} | {each['from']} | {' | '.join(numbers)} |"
    yield ""
    for each in step["targets"]:
        yield (
            f"- p{each['percentile']:g} of {code(each['metric'])} at most"
            f" {_time(each['limit_s'])}: **{_verdict(each) if each['verdict'] else 'no verdict'}**"
            f" ({each['misses'] or 0:,} of {each['requests'] or 0:,} requests missed it)"
        )
    conditions = {name: document["conditions"].get(name) for name in _CONDITIONS}
    known = [f"{name} {code(_condition(value))}" for name, value in conditions.items() if value]
    yield f"- conditions: {', '.join(known)}" if known else "- conditions: unknown"


def _condition(value: object) -> str:
    return (
        ", ".join(map(str, cast("list[object]", value))) if isinstance(value, list) else str(value)
    )


def _percentile(values: Mapping[str, Any], name: str) -> str:
    return "unbounded" if name in values["unbounded"] else _time(values[name])


def _time(value_s: float | None) -> str:
    return "—" if value_s is None else milliseconds(value_s * NS_PER_S)


def _cause(loop: Loop) -> Iterator[str]:
    result = loop.diagnosis
    if result is None:
        yield from _lacking(loop, Task.DIAGNOSE)
        return
    document = result.document
    cause = document["cause"]
    yield f"**{escaped(document['sentence'])}**"
    yield ""
    if cause is not None:
        for sentence in cause["evidence"]:
            yield f"- {escaped(sentence)}"
        yield f"- proposed: {escaped(cause['lever'])}"
        yield f"- refuted if {escaped(cause['refuted_by'])}"
        yield ""
    if document["shares"]:
        yield "| segment | slow requests | typical requests | share | 90 % interval |"
        yield "|---|---:|---:|---:|---|"
        for each in document["shares"]:
            yield (
                f"| {code(each['segment'])} | {_time(each['slow_s'])} |"
                f" {_time(each['typical_s'])} | {percent(each['share'])} |"
                f" {percent(each['low'])} to {percent(each['high'])} |"
            )
    over = [each for each in document["budget"] if each["over_s"]]
    for each in over:
        yield (
            f"- over its budget: {escaped(each['component'])}, {_time(each['actual_s'])} instead of"
            f" {_time(each['limit_s'])}"
        )


def _change(loop: Loop) -> Iterator[str]:
    change, verification = loop.path.change, loop.verification
    if verification is None:
        yield from _lacking(loop, Task.VERIFY)
        return
    levers = [each["name"] for each in verification.document["levers"]]
    yield "| | |"
    yield "|---|---|"
    yield f"| lever | {escaped(listed(levers))} |"
    yield f"| description | {plain(change.description)} |"
    for name, value in (
        ("made by", change.apply),
        ("taken back by", change.undo),
        ("options of the measurement", change.options),
    ):
        if value:
            yield f"| {name} | {code(value)} |"
    yield f"| flag of the rollout | {plain(change.flag)} |"
    if not verification.document["attributable"]:
        yield ""
        yield "Several levers were changed at once, so the effect is not attributable to one."


def _before_and_after(loop: Loop) -> Iterator[str]:
    verification = loop.verification
    if verification is None:
        yield from _lacking(loop, Task.VERIFY)
        return
    document = verification.document
    comparison = document["comparison"]
    yield f"**{escaped(document['sentence'])}**"
    yield ""
    yield (
        f"{verification.day}, {count(comparison['before']['runs'], 'run')} before and"
        f" {count(comparison['after']['runs'], 'run')} after, by"
        f" {code(f'latspan {verification.command}')}. Recordings:"
        f" {listed([code(each) for each in verification.recordings])}."
    )
    yield ""
    yield from comparison_table(comparison)
    explanation = comparison["explanation"]
    if explanation is not None:
        yield ""
        yield "| segment, mean of slow requests | before | after | difference, 95 % interval |"
        yield "|---|---:|---:|---|"
        for each in explanation["segments"]:
            interval = "—"
            if each["low_s"] is not None:
                interval = f"{each['low_s'] * 1e3:+,.1f} to {each['high_s'] * 1e3:+,.1f} ms"
            yield (
                f"| {code(each['segment'])} | {_time(each['before_s'])} |"
                f" {_time(each['after_s'])} | {interval} |"
            )
    target = comparison["target"]
    if target is not None:
        yield ""
        yield (
            f"Target: **{_verdict(target)}**; {target['misses']:,} of {target['requests']:,}"
            " requests after the change missed it."
        )
    if comparison["differences"]:
        yield ""
    for each in comparison["differences"]:
        word = "changed" if each["explains"] and each["accepted"] else "differs"
        text = f"{each['name']}: {each['before']} before, {each['after']} after"
        yield f"- {word}: {escaped(text)}"
    if loop.latest is not None and loop.latest.created > verification.created:
        yield ""
        yield f"Measured again on {loop.latest.day}: {escaped(measurement_text(loop.latest))}"


def comparison_table(comparison: Mapping[str, Any]) -> Iterator[str]:
    """Yield the table of a comparison, the goal first, without rows that have too few values."""
    yield "| | | before | after | change | 95 % interval | |"
    yield "|---|---|---:|---:|---:|---|---|"
    for row in comparison["rows"]:
        result = PercentileChange(row["change"])
        if result is PercentileChange.TOO_FEW:
            continue
        interval = "—"
        if row["low"] is not None and row["high"] is not None:
            interval = f"{row['low'] - 1:+.1%} to {row['high'] - 1:+.1%}"
        change = "—" if row["ratio"] is None else f"{row['ratio'] - 1:+.1%}"
        yield (
            f"| {code(row['segment'] or row['metric'])} | p{row['percentile']:g} |"
            f" {_time(row['before_s'])} | {_time(row['after_s'])} | {change} | {interval} |"
            f" {in_words(result)} |"
        )


def _trade_off(loop: Loop) -> Iterator[str]:
    path, verification = loop.path, loop.verification
    yield f"- may be traded for speed: {plain(', '.join(path.may_give_up))}"
    yield f"- must never reach a user: {plain(path.never_ship)}"
    if verification is None:
        return
    rows = verification.document["comparison"]["rows"]
    for words, result in (
        ("became worse", PercentileChange.WORSE),
        ("not decided", PercentileChange.CHANCE),
    ):
        names = [
            f"p{each['percentile']:g} {code(each['segment'] or each['metric'])}"
            for each in rows
            if each["change"] == result
        ]
        yield f"- {words}: {listed(names) if names else 'nothing that was measured'}"
    for note in verification.document["notes"]:
        yield f"- {escaped(note)}"


def _decision(loop: Loop, today: date) -> Iterator[str]:
    path, verification = loop.path, loop.verification
    owners = dict.fromkeys(each.owner for each in path.targets if each.owner)
    decision = "no change is needed" if loop.is_met else "open"
    if verification is not None:
        decision = _DECISIONS[verification.document["judgement"]]
    if owners or verification is None:
        yield f"- **Status**: {decision}, {today}; decided by {plain(', '.join(owners))}"
    else:
        # The result of a verification is a proposal until an owner decides.
        yield f"- **Status**: proposed, {today}; the owner of the target decides: {_NOT_STATED}"
    context = [escaped(f"{each.label}.") for each in path.targets]
    yield f"- **Context**: {' '.join([*context, sentence_of(loop.diagnosis)]).strip()}"
    if verification is None:
        yield "- **Decision**: none yet" if not loop.is_met else "- **Decision**: change nothing"
        return
    levers = listed([each["name"] for each in verification.document["levers"]])
    described = f": {plain(path.change.description)}" if path.change.description else ""
    verb = "reject" if decision == "rejected" else "apply" if decision == "accepted" else "propose"
    yield f"- **Decision**: {verb} {escaped(levers)}{described}"
    yield f"- **Consequences**: {sentence_of(verification)} See the trade-off above."


def _done(loop: Loop) -> Iterator[str]:
    # The last criterion is this page.
    for each in criteria_of(loop)[:-1]:
        lacking = f": fill in {', '.join(map(code, each.fields))}" if each.fields else ""
        yield f"- [{'x' if each.is_met else ' '}] {each.text}{lacking}"


def _missing(loop: Loop) -> Iterator[str]:
    found = missing_of(loop)
    for what, command in found:
        shown = escaped(what) if " " in what else code(what)
        yield f"- {shown}: {code(command)}"
    if not found:
        yield "Nothing."
