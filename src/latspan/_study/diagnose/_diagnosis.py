"""Diagnosis of a recording: one delay to fix, or the reason why none is named."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from latspan._base.nanoseconds import NS_PER_MS, NS_PER_S
from latspan._model.censoring import Bounds
from latspan._model.goals import Budget
from latspan._model.metrics import DURATION
from latspan._model.recording import RequestRecord
from latspan._model.segments import KIND_NOUNS, Kind, SegmentName
from latspan._model.text import count, percent
from latspan._model.units import rounded_ms
from latspan._study.answer import Answer, ExitCode
from latspan._study.diagnose._attribution import Attribution, Share, attribute
from latspan._study.diagnose._bands import MIN_UNITS
from latspan._study.diagnose._budgets import BudgetRow, budget_rows
from latspan._study.diagnose._cause import Cause
from latspan._study.diagnose._facts import Calibration, Facts, split_by
from latspan._study.diagnose._finding import Finding
from latspan._study.diagnose._goal import Goal
from latspan._study.diagnose._leading import leading
from latspan._study.diagnose._rulebook import explain, unreliable
from latspan._study.diagnose._server_rules import prefill_close_to_queue
from latspan._study.diagnose._table import RequestTable, units_of
from latspan._study.diagnose._where import place_of
from latspan._study.stats import TargetVerdict, Verdict, weighted_quantile, weighted_target_verdict
from latspan._study.table import Table, divide, table_of_records, wanted_attributes
from latspan.histogram import values_needed

_SPLIT: Final = (SegmentName.QUEUE, SegmentName.PREFILL)
_ESTIMATED: Final = 0.5

_MAX_UNEXPLAINED: Final = 0.5
"""Share of the time in no segment above which no cause is named."""

_LARGE: Final = 0.30
"""Share that one segment needs for its cause to be named: below, the time is spread out."""


class Conclusion(Answer):
    """What a diagnosis concludes."""

    FIX = "fix", ExitCode.GOOD
    """One segment leads, and a cause is named."""
    TIE = "tie", ExitCode.INCONCLUSIVE
    """Two segments are so close that chance decides which one is larger."""
    SPREAD_OUT = "spread_out", ExitCode.INCONCLUSIVE
    """No segment has a large share."""
    NOTHING_TO_FIX = "nothing_to_fix", ExitCode.GOOD
    """The target is met, with confidence."""
    UNDECIDED = "undecided", ExitCode.INCONCLUSIVE
    """
    Whether there is anything to fix is not known: only requests that were given up leave open
    whether the target is met, or nothing is slow and the goal has no limit.
    """
    NOT_INSTRUMENTED = "not_instrumented", ExitCode.INCONCLUSIVE
    """Too much of the time is in no segment."""
    UNRELIABLE = "unreliable", ExitCode.MISSED
    """So many requests failed that the percentile falls on a failed one."""
    INVALID = "invalid", ExitCode.NOT_INTERPRETABLE
    """The measurement itself is invalid."""
    TOO_FEW = "too_few", ExitCode.INCONCLUSIVE
    """There are too few requests."""
    NO_REQUESTS = "no_requests", ExitCode.INCONCLUSIVE
    """The source has histograms and no single requests, so nothing can be attributed."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """
    Result of a diagnosis.

    Args:
        goal: The goal.
        kind: Kind of the units.
        units: Number of units, failed ones included; in a sample, those that it stands for.
        failed: Number of failed units.
        cut: Number of units that were given up before the goal metric was known.
        value_ns: Interval of the percentile in nanoseconds; ``None`` if there are too few units.
        conclusion: What is concluded.
        sentence: The conclusion in one sentence.
        finding: Cause, evidence and lever, if one is named.
        attribution: Shares of the segments; ``None`` if there are too few units.
        target: Verdict on the goal's limit; ``None`` without a limit.
        budget: Components with their limits, largest overrun first; empty without a budget.
        notes: What a reader must know about the data, one sentence each.
        given_up: Sentence on the units that were given up; empty if there are none.
        step: Step in which most of the leading segment is, for example ``step 2 (chat m)``;
            ``None`` if it is in several, or if no unit has several calls.
        group: Attribute and value of the units; ``None`` for all.
        groups: Diagnosis of the units of each value of an attribute, those of most units first.
    """

    goal: Goal
    kind: Kind
    units: int
    failed: int
    conclusion: Conclusion
    sentence: str
    finding: Finding | None = None
    attribution: Attribution | None = None
    target: TargetVerdict | None = None
    budget: tuple[BudgetRow, ...] = ()
    notes: tuple[str, ...] = field(default=())
    cut: int = 0
    value_ns: Bounds | None = None
    given_up: str = ""
    step: str | None = None
    group: tuple[str, str] | None = None
    groups: tuple[Diagnosis, ...] = ()

    @property
    def subject(self) -> str:
        """The goal, and for a group also its attribute and value."""
        return str(self.goal) if self.group is None else f"{self.goal} of {' '.join(self.group)}"

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of the command; a cause of a missed target is not a success."""
        missed = self.target is not None and self.target.verdict is Verdict.MISSED
        if self.conclusion is Conclusion.FIX and missed:
            return ExitCode.MISSED
        return self.conclusion.exit_code

    @property
    def shares(self) -> tuple[Share, ...]:
        """Shares of the segments, largest first."""
        return () if self.attribution is None else self.attribution.shares

    @property
    def runner_up(self) -> Share | None:
        """The segment that explains most after the leading one; ``None`` if there is none."""
        return None if self.attribution is None else self.attribution.runner_up

    @property
    def remarks(self) -> tuple[str, ...]:
        """The notes, and before them the sentence on the units that were given up, if any."""
        return (self.given_up, *self.notes) if self.given_up else self.notes


def diagnose(
    records: Iterable[RequestRecord],
    goal: Goal,
    *,
    calibration: Calibration | None = None,
    budget: Budget | None = None,
    stable_tokens: float | None = None,
    where: Mapping[str, str] | None = None,
    by: str | None = None,
    invalid: str | None = None,
    notes: Iterable[str] = (),
) -> Diagnosis:
    """
    Return the one delay to fix.

    Args:
        records: Records of a recording.
        goal: Metric and percentile to explain.
        calibration: Calibration of the server, which separates queue and prefill if the server
            reports no times.
        budget: Limits of components.
        stable_tokens: Number of tokens at the start of each prompt that are the same in all.
        where: Value of each attribute that the units must have; all units if not given.
        by: Attribute by whose values the units are divided, if they are.
        invalid: Why the measurement is invalid, if it is.
        notes: What a reader must know about the records.

    Raises:
        ConfigError: No unit has an attribute of ``where``, or none has the attribute ``by``.
    """
    wanted = wanted_attributes(where, by)
    table = table_of_records(records, (goal.metric,), kind=goal.kind, where=wanted, gaps=True)
    about = tuple(notes)

    def judge(units: Table) -> Diagnosis:
        return diagnose_table(
            units_of(units, goal),
            calibration=calibration,
            budget=budget,
            stable_tokens=stable_tokens,
            invalid=invalid,
            notes=about,
        )

    return diagnose_by(table.rows(table.measured()).matching(where or {}), by, judge)


def diagnose_by(units: Table, by: str | None, judge: Callable[[Table], Diagnosis]) -> Diagnosis:
    """
    Return the diagnosis of all units, with one for each value of an attribute in its groups.

    Args:
        units: The units.
        by: The attribute; ``None`` for the diagnosis of all units alone.
        judge: Returns the diagnosis of some units.

    Raises:
        ConfigError: No unit has the attribute.
    """
    if by is None:
        return judge(units)
    division = divide([units], by)
    whole = judge(units)
    groups: list[Diagnosis] = []
    for value in division.values:
        found = judge(units.matching({by: value}))
        # What holds for all units is in the notes on all of them.
        own = tuple(note for note in found.notes if note not in whole.notes)
        groups.append(replace(found, group=(by, value), notes=own))
    return replace(whole, groups=tuple(groups), notes=(*whole.notes, *division.notes))


def diagnose_table(
    table: RequestTable,
    *,
    calibration: Calibration | None = None,
    budget: Budget | None = None,
    stable_tokens: float | None = None,
    target: TargetVerdict | None = None,
    invalid: str | None = None,
    notes: Iterable[str] = (),
) -> Diagnosis:
    """
    Return the diagnosis of a table; see :func:`diagnose`.

    Args:
        table: The units.
        calibration: Calibration of the server.
        budget: Limits of components.
        stable_tokens: Number of tokens at the start of each prompt that are the same in all.
        target: Verdict on the goal's limit, if it is known from data on more requests.
        invalid: Why the measurement is invalid, if it is.
        notes: What a reader must know about the records.
    """
    if calibration is not None:
        table = split_by(table, calibration)
    goal, units = table.goal, round(float(table.weight.sum()))
    noun = KIND_NOUNS[table.kind][1]
    failed = table.count(table.failed)
    attribution = attribute(table)
    if target is None:
        target = _target(table)
    facts = None
    if attribution is not None:
        facts = Facts(table, attribution, calibration, stable_tokens)
        attribution = leading(facts)
        place = place_of(table, attribution)
        seen = place.table if place is not None and place.label else table
        facts = Facts(seen, attribution, calibration, stable_tokens, place)
    lacking, given_up = tuple(_lacking(table, noun)), _given_up(table, noun)

    def result(conclusion: Conclusion, sentence: str, finding: Finding | None = None) -> Diagnosis:
        return Diagnosis(
            goal=goal,
            kind=table.kind,
            units=units,
            failed=failed,
            cut=table.count(table.cut),
            value_ns=_percentile(table),
            conclusion=conclusion,
            sentence=sentence,
            finding=finding,
            attribution=attribution,
            target=target,
            budget=()
            if budget is None or attribution is None
            else budget_rows(budget, Facts(table, attribution)),
            step=None if facts is None or facts.place is None else facts.place.label or None,
            notes=(*notes, *lacking),
            given_up=given_up,
        )

    if invalid is not None:
        return result(Conclusion.INVALID, f"The measurement is invalid: {invalid}.")
    failing = unreliable(failed, units, goal.percentile)
    if failing is not None:
        return result(Conclusion.UNRELIABLE, f"Fix this first: {failing.evidence[0]}.", failing)
    if facts is None:
        return result(Conclusion.TOO_FEW, _too_few(table, noun))
    if target is not None and target.verdict is Verdict.MET:
        limit = rounded_ms(goal.limit_ns or 0)
        sentence = f"Nothing to fix: {goal} is within {limit}, with 95 % confidence."
        return result(Conclusion.NOTHING_TO_FIX, sentence)
    if target is not None and target.undecided and _is_met_by_the_others(table):
        limit = rounded_ms(goal.limit_ns or 0)
        return result(
            Conclusion.UNDECIDED,
            f"Whether {goal} is within {limit} is not known: {target.undecided:,} of"
            f" {target.requests:,} {noun} were given up before it, and the others are.",
        )
    return _explained(facts, noun, result)


def _explained(facts: Facts, noun: str, result: Callable[..., Diagnosis]) -> Diagnosis:
    attribution, goal = facts.attribution, facts.table.goal
    leader, runner_up, rival = attribution.leader, attribution.runner_up, attribution.rival
    of = "of the difference" if attribution.by_excess else "of the time"

    def part(share: Share) -> str:
        return f"{share.name} ({percent(attribution.weight(share))})"

    # Without a call, nothing shows what the application's own time is for.
    unnamed = {SegmentName.UNATTRIBUTED}
    if not facts.has_calls:
        unnamed.add(SegmentName.APPLICATION)
    unexplained = attribution.share(*unnamed)
    leads = leader.name in unnamed and attribution.weight(leader) >= _LARGE
    if unexplained > _MAX_UNEXPLAINED or leads:
        fraction = percent(attribution.weight(leader)) if leads else percent(unexplained)
        return result(
            Conclusion.NOT_INSTRUMENTED,
            f"{fraction} {of if leads else 'of the time'} at {goal} is in no step: name the work"
            " of your application with latspan.stage, and record again.",
        )
    finding = explain(facts)
    units = f"slow {noun}"
    if attribution.is_extended:
        units = f"the slowest {len(attribution.tail)} {noun}"
    compared = f"{units} take {rounded_ms(attribution.tail_ns)}"
    compared += f" and typical ones {rounded_ms(attribution.typical_ns)}"
    if finding is not None and finding.cause in _WHATEVER_LEADS:
        return result(Conclusion.FIX, f"At {goal}, {finding.summary}.", finding)
    if attribution.weight(leader) < _LARGE:
        return result(
            Conclusion.SPREAD_OUT,
            f"At {goal}, {compared}, and no segment has 30 % {of}: the largest is {part(leader)}."
            " Compare components with a budget.",
            finding,
        )
    covered = () if finding is None else finding.segments
    if rival is not None and rival.name not in covered:
        slow = min(leader, rival, key=lambda share: share.independent)
        values = count(round(slow.independent), "independent value")
        return result(
            Conclusion.TIE,
            f"At {goal}, {compared}; {part(leader)} and {part(rival)} {of} are too close to call:"
            f" {slow.name} changes so slowly that this recording holds only about {values} of it."
            " Measure for longer.",
            finding,
        )
    if finding is None and leader.name == SegmentName.DECODE:
        return result(
            Conclusion.UNDECIDED,
            f"At {goal}, {compared}, and {part(leader)} {of} is the work of a quick model. Whether"
            f" that is too slow is not known: give the goal a limit, as in"
            f" '{goal} < {_above(attribution.tail_ns)}'.",
        )
    is_close = runner_up is not None and attribution.lead <= 0
    prefill = prefill_close_to_queue(facts)
    if leader.name == SegmentName.QUEUE and prefill is not None:
        runner_up, is_close = prefill, True
    if runner_up is not None and runner_up.name not in covered and is_close:
        return result(
            Conclusion.TIE,
            f"At {goal}, {compared}; {part(leader)} and {part(runner_up)} {of} are too close to"
            f" call: begin with {leader.name}.",
            finding,
        )
    low, high = (percent(min(max(each, 0.0), 1.0)) for each in attribution.interval(leader))
    share = f"{percent(attribution.weight(leader))} {of}"
    if low != high:
        share += f" ({low} to {high})"
    summary = f": {finding.summary}" if finding is not None else ""
    name = leader.name
    if facts.place is not None and facts.place.label:
        name += f" in {facts.place.label}"
        if finding is not None:
            where = f"{facts.place.text}, in typical requests {rounded_ms(facts.place.typical_ns)}"
            finding = replace(finding, evidence=(*finding.evidence, f"{leader.name} {where}"))
    summary += _inferred(facts)
    if attribution.by_excess:
        sentence = f"{compared}; {name} is {share}"
    elif attribution.differs:
        sentence = f"{compared}, and both have it: {name} is {share}"
    else:
        sentence = f"{units} take little longer than typical ones; {name} is {share}"
    return result(Conclusion.FIX, f"At {goal}, {sentence}{summary}.", finding)


def _inferred(facts: Facts) -> str:
    """Return that the leading segment is inferred, if several steps ran at once for long."""
    if facts.table.goal.metric != DURATION:
        return ""
    slow_s, _ = facts.means(np.nan_to_num(facts.table.number("path_inferred_s")))
    fraction = slow_s * NS_PER_S / facts.attribution.tail_ns
    if fraction <= _MAX_INFERRED:
        return ""
    return (
        f" (inferred: for {percent(min(fraction, 1.0))} of the time several steps ran at once, and"
        " the one that began first and lasted longest counts)"
    )


_MAX_INFERRED: Final = 0.2
"""Fraction of the slow requests' time above which what leads is stated as inferred."""


def _above(value_ns: float) -> str:
    """Return a limit above a time, with one digit."""
    digit = 10 ** math.floor(math.log10(max(value_ns, 1.0)))
    return f"{math.ceil(value_ns / digit) * digit / NS_PER_MS:g} ms"


_WHATEVER_LEADS: Final = frozenset({Cause.COLD_START, Cause.SLOW_GROUP, Cause.MANY_STEPS})
"""Causes that explain the tail whichever segment leads."""


def _percentile(table: RequestTable) -> Bounds | None:
    if len(table) < values_needed(table.goal.percentile):
        return None
    low, high = (
        weighted_quantile(each, table.weight, table.goal.percentile)
        for each in (table.low_ns, table.high_ns)
    )
    return Bounds(low, high)


def _target(table: RequestTable) -> TargetVerdict | None:
    limit_ns = table.goal.limit_ns
    if limit_ns is None or not len(table):
        return None
    return weighted_target_verdict(
        table.low_ns, table.high_ns, table.weight, limit_ns, table.goal.percentile
    )


def _is_met_by_the_others(table: RequestTable) -> bool:
    """Return whether the target would be met if no given-up request had missed it."""
    limit_ns = table.goal.limit_ns
    if limit_ns is None:
        return False
    verdict = weighted_target_verdict(
        table.low_ns, table.low_ns, table.weight, limit_ns, table.goal.percentile
    )
    return verdict.verdict is Verdict.MET


def _too_few(table: RequestTable, noun: str) -> str:
    usable = int((~np.isnan(table.value_ns)).sum())
    if not len(table) and not table.left_out:
        return "Nothing to diagnose: no request and no call was recorded."
    if table.left_out and not usable:
        return (
            f"Nothing to diagnose: none of {table.left_out:,} {noun} has the metric"
            f" {table.goal.metric}."
        )
    if usable >= MIN_UNITS:
        return f"Nothing to diagnose: {table.goal.metric} is 0 in all {usable:,} {noun}."
    needed = MIN_UNITS - usable
    given_up = table.count(table.cut)
    if given_up > usable:
        return (
            f"Too few {noun}: {given_up:,} of {len(table):,} were given up, so their"
            f" {table.goal.metric} is not known; {needed:,} more needed."
        )
    return (
        f"Too few {noun}: {usable:,} have the metric {table.goal.metric}, {needed:,} more needed."
    )


def _lacking(table: RequestTable, noun: str) -> Iterable[str]:
    if table.left_out and len(table):
        yield f"{table.left_out:,} {noun} do not have the metric {table.goal.metric}."
    estimated = [
        name
        for name, fraction in zip(table.names, table.uncertain, strict=True)
        if name in _SPLIT and fraction > _ESTIMATED
    ]
    if estimated:
        yield f"Estimated, and not measured: {' and '.join(estimated)}."
    if table.segment(SegmentName.SERVER_WAIT).any() and table.reported == 0 and len(table):
        yield (
            "No server reports its times, so queue and prefill cannot be separated without a"
            " calibration at concurrency 1."
        )


def _given_up(table: RequestTable, noun: str) -> str:
    given_up = table.cut
    if not given_up.any():
        return ""
    slow = given_up & ~np.isnan(table.value_ns)
    text = f"{table.count(given_up):,} of {table.count(given_up | True):,} {noun} were given up"
    if slow.any():
        text += f"; {table.count(slow):,} of them had waited long enough to count as slow"
    return f"{text}."
