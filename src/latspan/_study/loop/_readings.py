"""What the loop reads from the documents of results: verdicts, conclusions and their sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from latspan._base.nanoseconds import NS_PER_S
from latspan._model.goals import InferencePath, Target
from latspan._model.text import in_words
from latspan._study.compare import Judgement
from latspan._study.diagnose import Conclusion
from latspan._study.loop._results import Result
from latspan._study.stats import Verdict, requests_needed
from latspan._study.verify import LEVERS, QualityJudgement

_GOOD: Final = frozenset({Judgement.IMPROVED, Judgement.NO_WORSE})
_NOT_INTERPRETABLE: Final = "not_interpretable"
_QUALITY: Final = ("quality", "anything")
"""Words in what a lever may worsen that call for a comparison of the answers."""

_MAX_RUNS: Final = 30
"""Largest number of runs per side that is proposed: making a larger change is faster than more."""


def sentence_of(result: Result) -> str:
    """
    Return the sentence of a document.

    Raises:
        TypeError: It is not a text.
    """
    return _text(result.document["sentence"])


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a sentence is no text")
    return value


def targets_of(measurement: Result) -> Sequence[Mapping[str, Any]]:
    """Return the results of the targets in the last step of a load test."""
    steps: Sequence[Mapping[str, Any]] = measurement.document["steps"]
    return steps[-1]["targets"] if steps else ()


def verdict_of(measurement: Result) -> Verdict | None:
    """Return what a load test proves about all targets; ``None`` if it is invalid."""
    verdicts = {each["verdict"] for each in targets_of(measurement)}
    if not measurement.document["valid"] or not verdicts:
        return None
    if Verdict.MISSED in verdicts:
        return Verdict.MISSED
    return Verdict.MET if verdicts == {Verdict.MET} else Verdict.UNDECIDED


def metrics_without_values(measurement: Result) -> tuple[str, ...]:
    """Return the metrics of the targets of which no request has a value, in a valid load test."""
    if not measurement.document["valid"]:
        return ()
    lacking = (each["metric"] for each in targets_of(measurement) if each["verdict"] is None)
    return tuple(dict.fromkeys(map(_text, lacking)))


def why_invalid(measurement: Result) -> str:
    """Return why a load test is invalid."""
    document = measurement.document
    if document["interrupted"]:
        return "the measurement was interrupted"
    reasons = [
        _text(each["text"])
        for step in document["steps"]
        for each in step["caveats"]
        if each["invalidates"]
    ]
    return reasons[0] if reasons else "the measurement has no verdict"


def measurement_text(measurement: Result) -> str:
    """Return the verdicts of a load test in words."""
    if verdict_of(measurement) is None:
        return f"invalid: {why_invalid(measurement)}"
    return "; ".join(map(_target_text, targets_of(measurement)))


def _target_text(target: Mapping[str, Any]) -> str:
    label = Target(
        metric=target["metric"],
        percentile=target["percentile"],
        limit_ns=round(target["limit_s"] * NS_PER_S),
    ).label
    verdict = target["verdict"]
    if verdict is None:
        return f"no verdict: {label}; no request has a value"
    if verdict == Verdict.UNDECIDED:
        return f"needs {target['needed']:,} more requests: {label}"
    misses, requests = target["misses"], target["requests"]
    return f"{verdict}: {label} ({misses:,} of {requests:,} requests missed it)"


def requests_to_decide(measurement: Result) -> int | None:
    """
    Return the number of requests to measure, if there were too few to meet a target at all.

    If there were enough, the percentile is so close to the limit that more would hardly decide.
    """
    short = [
        requests_needed(1, each["percentile"])
        for each in targets_of(measurement)
        if each["verdict"] == Verdict.UNDECIDED
        and each["requests"] < requests_needed(0, each["percentile"])
    ]
    return max(short, default=None)


def first_unmet(path: InferencePath, measurement: Result) -> Target:
    """Return the target to diagnose: the first that is missed, else the first that is not met."""
    found = {(each["metric"], each["percentile"]): each for each in targets_of(measurement)}
    verdicts = [
        found.get((each.metric, each.percentile), {}).get("verdict") for each in path.targets
    ]
    for wanted in (Verdict.MISSED, Verdict.UNDECIDED):
        if wanted in verdicts:
            return path.targets[verdicts.index(wanted)]
    return path.targets[0]


def conclusion_of(diagnosis: Result) -> Conclusion:
    """Return the conclusion of a diagnosis."""
    return Conclusion(diagnosis.document["conclusion"])


def sweep_found_drift(sweep: Result) -> bool:
    """Return whether a sweep found that an inference path became slower or misses a target."""
    return bool(sweep.document["paths"][0]["finding"] == "drift")


def sweep_calls_for_more(sweep: Result) -> bool:
    """Return whether a sweep found drift, or could not be interpreted."""
    return sweep.document["paths"][0]["finding"] in {"drift", "not_interpretable"}


def sweep_text(sweep: Result) -> str:
    """Return what a sweep found, in words."""
    path = sweep.document["paths"][0]
    return f"{in_words(path['finding'])}: {_text(path['sentence'])}"


def judgement_of(verification: Result) -> Judgement:
    """Return the judgement of a verification."""
    return Judgement(verification.document["judgement"])


def is_good(verification: Result) -> bool:
    """Return whether a change may stay: it is improved or no worse."""
    return judgement_of(verification) in _GOOD


def is_attributable(verification: Result) -> bool:
    """Return whether exactly one lever was changed."""
    return bool(verification.document["attributable"])


def is_disturbed(verification: Result) -> bool:
    """Return whether a verification is not interpretable because a measurement is invalid."""
    comparison = verification.document["comparison"]
    # Otherwise the lever was not applied, or something else differs.
    differs = any(each["explains"] and not each["accepted"] for each in comparison["differences"])
    return comparison["judgement"] == _NOT_INTERPRETABLE and not differs


def verdict_verified(verification: Result) -> Verdict | None:
    """Return the verdict on the target after the change; ``None`` if there is no target."""
    target = verification.document["comparison"]["target"]
    return None if target is None else Verdict(target["verdict"])


def proves_targets(verification: Result, targets: Sequence[Target]) -> bool:
    """Return whether a verification shows that every target of a file is met after the change."""
    comparison = verification.document["comparison"]
    if comparison["target"] is None:
        return False
    goal = comparison["goal"]
    judged = goal["metric"], goal["percentile"], round(goal["limit_s"] * NS_PER_S)
    return verdict_verified(verification) is Verdict.MET and all(
        (each.metric, each.percentile, each.limit_ns) == judged for each in targets
    )


def verification_text(verification: Result) -> str:
    """Return the judgement of a verification and the verdict on its target."""
    verdict = verdict_verified(verification)
    target = "no target" if verdict is None else f"target {verdict}"
    return f"{in_words(judgement_of(verification))}, {target}"


def runs_to_decide(verification: Result) -> int | None:
    """Return the number of runs per side that would decide; ``None`` if they would not."""
    comparison = verification.document["comparison"]
    needed: int | None = comparison["runs_needed"]
    had = min(comparison["before"]["runs"], comparison["after"]["runs"])
    return needed if needed is not None and had < needed <= _MAX_RUNS else None


def needs_quality(verification: Result) -> bool:
    """Return whether a lever of a verification may worsen the answers."""
    return any(may_hurt_quality(each["name"]) for each in verification.document["levers"])


def may_hurt_quality(lever: str) -> bool:
    """Return whether a lever may worsen the answers; an unknown one may."""
    hurt = LEVERS[lever].may_hurt if lever in LEVERS else _QUALITY[0]
    return any(word in hurt for word in _QUALITY)


def quality_of(verification: Result) -> QualityJudgement | None:
    """Return what the answers show; ``None`` if they were not compared."""
    quality = verification.document["quality"]
    return None if quality is None else QualityJudgement(quality["judgement"])
