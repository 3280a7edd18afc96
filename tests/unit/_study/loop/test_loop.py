"""The state of each task and the next command, for each way in which a pass can go."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from latspan._model.goals import Change, PromptTemplate, QualityCheck
from latspan._study.loop import Loop, Task, TaskStatus, criteria_of, is_done, next_of
from support.loops import Story, chat


def _states(loop: Loop) -> dict[str, str]:
    return {each.task.value: each.state.value for each in loop.tasks}


def _next(story: Story) -> str:
    return next_of(story.loop).command


def _open_criteria(loop: Loop) -> list[str]:
    return [each.text for each in criteria_of(loop) if not each.is_met]


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path, chat())


def test_a_pass_goes_from_task_to_task(story: Story) -> None:
    """Each result makes its task done, and the next one the next command."""
    commands = [_next(story)]
    for step in (story.measured, story.diagnosed, story.verified, story.documented):
        step()
        commands.append(_next(story))
    assert commands == [
        "latspan measure chat",
        "latspan diagnose chat",
        "latspan verify chat",
        "latspan document chat",
        "latspan sweep",
    ]
    assert is_done(story.loop)
    assert _states(story.loop) == {
        "target": "done",
        "instrument": "done",
        "measure": "done",
        "diagnose": "done",
        "change": "done",
        "verify": "done",
        "document": "done",
        "watch": "open",
    }
    assert "sweep again by 2026-04-01" in next_of(story.loop).reason


def test_a_new_file_is_to_be_edited(tmp_path: Path) -> None:
    """Without an endpoint nothing can be measured."""
    story = Story(tmp_path, chat(endpoint=""))
    assert _next(story) == "${EDITOR:-vi} chat.toml"
    assert "endpoint" in next_of(story.loop).reason
    assert _states(story.loop)["target"] == "open"


def test_a_target_that_is_met_needs_no_change(story: Story) -> None:
    """The write-up follows the measurement, and the definition of done is shorter."""
    story.edit(chat(change=Change()))
    story.measured("met")
    assert _next(story) == "latspan document chat"
    assert _states(story.loop) | {"watch": ""} == {
        "target": "done",
        "instrument": "done",
        "measure": "done",
        "diagnose": "not_needed",
        "change": "not_needed",
        "verify": "not_needed",
        "document": "open",
        "watch": "",
    }
    story.documented()
    assert is_done(story.loop)
    story.measured("met")
    assert is_done(story.loop)
    assert story.loop.state(Task.WATCH).state is TaskStatus.DONE


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"model": "large"}, "model"),
        ({"endpoint": "http://other/v1"}, "endpoint"),
        ({"prompt": PromptTemplate(prompts="prompts.jsonl")}, "prompts"),
    ],
)
def test_a_change_of_the_file_makes_everything_stale(
    story: Story, tmp_path: Path, change: dict[str, object], part: str
) -> None:
    """The state names the part, and the next command measures again."""
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "Where did the time go?"}\n')
    for step in (story.measured, story.diagnosed, story.verified, story.documented):
        step()
    story.edit(chat(**change))
    measure = story.loop.state(Task.MEASURE)
    assert (measure.state, measure.text) == (TaskStatus.STALE, f"changed since then: {part}")
    assert {_states(story.loop)[each] for each in ("diagnose", "verify", "document")} == {"stale"}
    assert _next(story) == "latspan measure chat"
    assert not is_done(story.loop)


def test_a_change_of_a_prompt_is_noticed(tmp_path: Path) -> None:
    """The contents of the files of prompts and of the template count, not their names."""
    (tmp_path / "template.txt").write_text("Be brief.")
    story = Story(tmp_path, chat(prompt=PromptTemplate(template="template.txt")))
    story.measured()
    assert story.loop.state(Task.MEASURE).state is TaskStatus.DONE
    (tmp_path / "template.txt").write_text("Be long.")
    assert story.loop.state(Task.MEASURE).text == "changed since then: template"


def test_a_file_that_does_not_exist_is_named(tmp_path: Path) -> None:
    """A measurement could not begin."""
    story = Story(tmp_path, chat(prompt=PromptTemplate(prompts="nothing.jsonl")))

    found = next_of(story.loop)

    assert found.command == "${EDITOR:-vi} chat.toml"
    assert "there is no file nothing.jsonl" in found.reason


@pytest.mark.parametrize("name", ["x" * 300, "a\0b"], ids=["long", "null"])
def test_a_name_that_no_file_can_have_is_of_no_file(tmp_path: Path, name: str) -> None:
    """A prompt in the place of its file's name must not stop the other inference paths."""
    story = Story(tmp_path, chat(prompt=PromptTemplate(template=name)))
    story.measured()
    assert story.loop.missing_file == name


def test_a_change_of_words_only_concerns_the_write_up(story: Story) -> None:
    """Another owner is no reason to measure again."""
    for step in (story.measured, story.diagnosed, story.verified, story.documented):
        step()
    story.edit(chat(provider="ours"))
    assert _states(story.loop)["measure"] == "done"
    assert _next(story) == "latspan document chat"


def test_an_invalid_measurement_is_repeated(story: Story) -> None:
    """The reason is that of the measurement."""
    story.measured(invalid="requests were sent late")
    found = next_of(story.loop)
    assert found.command == "latspan measure chat"
    assert found.reason == "measure again: requests were sent late"


def test_too_few_requests_are_completed(story: Story) -> None:
    """With enough requests and still no verdict, the target is close, so it is diagnosed."""
    story.measured("undecided", requests=40)
    assert _next(story) == "latspan measure chat --requests 93"
    story.measured("undecided", requests=100)
    assert _next(story) == "latspan diagnose chat"


@pytest.mark.parametrize(
    ("conclusion", "command"),
    [
        ("invalid", "latspan measure chat"),
        ("too_few", "latspan measure chat --requests 100"),
        ("not_instrumented", "latspan measure chat"),
        ("tie", "latspan verify chat"),
    ],
)
def test_a_diagnosis_without_a_cause(story: Story, conclusion: str, command: str) -> None:
    """What prevents a diagnosis is mended by another measurement; a tie is for a person."""
    story.measured()
    story.diagnosed(conclusion)
    assert _next(story) == command
    is_instrumented = _states(story.loop)["instrument"] == "done"
    assert is_instrumented == (conclusion != "not_instrumented")


@pytest.mark.parametrize(
    ("change", "lacking"),
    [
        (Change(), "lever is empty"),
        (Change(lever="capacty"), "no lever 'capacty'"),
        (Change(lever="capacity"), "apply and options are empty"),
    ],
)
def test_a_change_must_be_described(story: Story, change: Change, lacking: str) -> None:
    """The reason has what the diagnosis proposes."""
    story.edit(chat(change=change))
    story.measured()
    story.diagnosed()
    found = next_of(story.loop)
    assert found.command == "${EDITOR:-vi} chat.toml"
    assert "The diagnosis proposes: add capacity" in found.reason
    assert lacking in found.reason


def test_an_improvement_that_misses_the_target_begins_the_next_pass(story: Story) -> None:
    """It is written up; then the new state is measured, and another change is needed."""
    story.measured()
    story.diagnosed()
    story.verified(target="missed")
    assert _next(story) == "latspan document chat"
    story.documented()
    assert _open_criteria(story.loop) == ["every target is met"]
    assert _next(story) == "latspan measure chat"
    assert next_of(story.loop).reason == (
        "roll the change out, and measure the next pass. Not reached yet: every target is met"
    )
    story.measured()
    assert _next(story) == "latspan diagnose chat"
    story.diagnosed()
    assert _next(story) == "${EDITOR:-vi} chat.toml"
    assert "was verified on 2026-03-02" in next_of(story.loop).reason
    story.edit(chat(change=Change(lever="batching", apply="a", undo="b")))
    assert _next(story) == "latspan verify chat"
    story.verified(lever="batching")
    assert _next(story) == "latspan document chat"


def test_a_change_that_is_worse_is_written_up_and_replaced(story: Story) -> None:
    """A rejected change is a result too."""
    story.measured()
    story.diagnosed()
    story.verified("worse", target="missed")
    assert _next(story) == "latspan document chat"
    story.documented()
    found = next_of(story.loop)
    assert found.command == "${EDITOR:-vi} chat.toml"
    assert "the change is worse: take it back" in found.reason
    story.edit(chat(change=Change(lever="batching", apply="a", undo="b")))
    assert _next(story) == "latspan verify chat"


@pytest.mark.parametrize(
    ("judgement", "runs_needed", "command"),
    [
        ("not_interpretable", None, "latspan verify chat"),
        ("inconclusive", 12, "latspan verify chat --runs 12"),
        ("inconclusive", 400, "latspan document chat"),
    ],
)
def test_a_verification_without_an_answer(
    story: Story, judgement: str, runs_needed: int | None, command: str
) -> None:
    """It is repeated if that can help, and written up as undecided if it cannot."""
    story.measured()
    story.diagnosed()
    story.verified(judgement, runs_needed=runs_needed)
    assert _next(story) == command


def test_a_verification_in_which_something_else_differs_is_corrected(story: Story) -> None:
    """Repeating it would give the same; the person may have repaired the system, though."""
    story.measured()
    story.diagnosed()
    story.verified("not_interpretable", differs="model")
    found = next_of(story.loop)
    assert found.command == "${EDITOR:-vi} chat.toml"
    assert found.reason.endswith("Correct [change], or run latspan verify chat again")


def test_a_verification_that_was_disturbed_is_repeated_as_it_was(story: Story) -> None:
    """The file may have no lever; the folder of the runs is not empty any more."""
    story.edit(chat(change=Change()))
    story.measured()
    story.diagnosed()
    story.verified("inconclusive", runs_needed=8)
    command = "verify chat --lever capacity --runs 5 -o runs --after-options '--seed 1'"
    story.results[-1] = replace(story.results[-1], command=command)
    assert _next(story) == (
        "latspan verify chat --lever capacity --after-options '--seed 1' --runs 8"
    )


def test_the_answers_are_compared_if_the_lever_may_hurt_them(story: Story) -> None:
    """First the files are asked for, then they are compared on the recordings that exist."""
    change = Change(
        lever="model",
        description="the small one",
        options="--model small",
        rollback=("the old model",),
    )
    story.edit(chat(change=change))
    story.measured()
    story.diagnosed()
    story.verified(lever="model")
    story.documented()
    assert _open_criteria(story.loop) == ["the answers are as good as before"]
    assert next_of(story.loop).reason == ("fill in quality.items, quality.before and quality.after")
    story.edit(chat(change=change, quality=QualityCheck(items="i", before="b", after="a")))
    assert _next(story) == "latspan verify chat --recorded runs/before runs/after"
    story.verified("inconclusive", lever="model", quality="inconclusive")
    story.documented()
    assert "add items" in next_of(story.loop).reason
    story.verified(lever="model", quality="kept")
    story.documented()
    assert is_done(story.loop)


def test_the_check_of_the_quality_needs_no_files_of_answers(story: Story) -> None:
    """It runs in the verification, so only another one can run it."""
    change = Change(
        lever="model",
        description="the small one",
        options="--model small",
        rollback=("the old model",),
    )
    story.edit(chat(change=change, quality=QualityCheck(command="./check {side}")))
    story.measured()
    story.diagnosed()
    story.verified(lever="model")
    found = next_of(story.loop)
    assert found.command == "latspan verify chat"
    assert found.reason == "check the quality: compare the answers of both sides"
    story.verified(lever="model", quality="kept")
    story.documented()
    assert is_done(story.loop)


def test_empty_fields_are_asked_for_after_the_write_up(story: Story) -> None:
    """They do not stop a person who measures."""
    path = chat(never_ship="", change=replace(chat().change, undo="", options="--cache warm"))
    story.edit(replace(path, targets=(replace(path.targets[0], owner=""),)))
    for step in (story.measured, story.diagnosed, story.verified, story.documented):
        step()
    assert next_of(story.loop).reason == ("fill in target.owner, never_ship and change.rollback")


def test_a_drift_begins_a_pass(story: Story) -> None:
    """A measurement that misses the target after everything was done is diagnosed."""
    for step in (story.measured, story.diagnosed, story.verified, story.documented):
        step()
    story.measured("met")
    assert is_done(story.loop)
    story.measured("missed")
    assert not is_done(story.loop)
    assert _next(story) == "latspan diagnose chat"
    assert story.loop.verification is None


def test_a_verification_without_a_diagnosis_counts(story: Story) -> None:
    """A person who knows the cause need not ask for it, but the definition of done does."""
    story.measured()
    story.verified()
    assert _states(story.loop)["diagnose"] == "not_needed"
    assert _next(story) == "latspan document chat"
    assert "a diagnosis names one cause" in _open_criteria(story.loop)


def test_a_change_that_only_the_command_line_stated_counts(story: Story) -> None:
    """The table is empty, but what was verified is known."""
    story.edit(chat(change=Change()))
    story.measured()
    story.diagnosed()
    story.verified()
    assert story.loop.state(Task.CHANGE).text == "capacity, stated with latspan verify"
    assert _next(story) == "latspan document chat"
    story.documented()
    assert next_of(story.loop).reason == "fill in change.description and change.rollback"


def test_a_name_that_a_folder_has_too_is_given_as_a_file(story: Story, tmp_path: Path) -> None:
    """``latspan diagnose chat`` would read the folder."""
    (tmp_path / "chat").mkdir()
    assert _next(story) == "latspan measure chat.toml"


def test_a_sweep_watches_a_path_that_is_done(story: Story) -> None:
    """Without drift everything stays done, and the date of the next sweep moves on."""
    for step in (story.measured, story.diagnosed, story.verified, story.documented, story.swept):
        step()
    watch = story.loop.state(Task.WATCH)
    assert (watch.state, watch.text) == (TaskStatus.DONE, "no drift: The sentence of no_drift.")
    assert is_done(story.loop)
    assert _next(story) == "latspan sweep"


def test_drift_leads_to_the_measurement_of_the_next_pass(story: Story) -> None:
    """The path is no longer done until it is measured again."""
    for step in (story.measured, story.diagnosed, story.verified, story.documented):
        step()
    story.swept("drift")
    assert story.loop.state(Task.WATCH).state is TaskStatus.OPEN
    assert not is_done(story.loop)
    assert _next(story) == "latspan measure chat"
    assert "the sweep of 2026-03-02 found drift" in next_of(story.loop).reason
    story.measured("met")
    assert story.loop.sweep is None
    assert is_done(story.loop)


def test_a_sweep_of_another_content_of_the_file_does_not_count(story: Story) -> None:
    """As a measurement of it does not."""
    story.measured("met")
    story.swept("drift")
    story.edit(chat(model="large"))
    assert story.loop.sweep is None


def test_a_target_that_no_request_has_is_shown(story: Story) -> None:
    """There is no verdict and nothing to count."""
    story.measured(None)
    (target,) = story.results[-1].document["steps"][0]["targets"]
    target.update(requests=None, misses=None, needed=None)
    state = next(each for each in story.loop.tasks if each.task is Task.MEASURE)
    assert "no verdict" in state.text
    assert "no request has a value" in state.text


def test_a_measurement_without_a_single_value_leads_to_the_target(story: Story) -> None:
    """To measure or diagnose the same requests again would lead in a circle."""
    story.measured(None)
    assert story.loop.state(Task.MEASURE).state is TaskStatus.OPEN
    following = next_of(story.loop)
    assert following.command.endswith("chat.toml")
    assert "no request has a value of time_to_first_token" in following.reason
    assert "a valid measurement under the load of the file" in _open_criteria(story.loop)


def test_a_verification_proves_only_the_target_that_it_judged(story: Story) -> None:
    """A second target of the file, or another limit than the file has, stays open."""
    for step in (story.measured, story.diagnosed, story.verified, story.documented):
        step()
    assert _open_criteria(story.loop) == []
    (target,) = story.path.targets
    story.edit(chat(targets=(target, replace(target, metric="duration", percentile=90))))
    assert "every target is met" in _open_criteria(story.loop)
    story.edit(chat())
    story.verified(limit_s=99.0)
    assert "every target is met" in _open_criteria(story.loop)


def test_a_diagnosis_of_an_invalid_measurement_is_not_called_older(story: Story) -> None:
    """Nothing was measured since then."""
    story.measured(invalid="requests were sent late")
    story.diagnosed()
    state = story.loop.state(Task.DIAGNOSE)
    assert (state.state, state.text) == (
        TaskStatus.STALE,
        "the measurement that it explains is invalid or not complete",
    )


def test_what_is_stale_checks_nothing(story: Story) -> None:
    """A diagnosis of other contents of the file names no cause of the present ones."""
    story.measured()
    story.diagnosed()
    assert "a diagnosis names one cause" not in _open_criteria(story.loop)
    story.edit(chat(model="large"))
    assert _states(story.loop)["diagnose"] == "stale"
    criteria = _open_criteria(story.loop)
    assert "a valid measurement under the load of the file" in criteria
    assert "a diagnosis names one cause" in criteria


def test_the_check_of_the_quality_is_asked_for_before_the_verification(story: Story) -> None:
    """Only the verification has the system in the state of both sides."""
    change = Change(lever="model", description="small", options="--model small")
    story.edit(chat(change=Change()))
    story.measured()
    story.diagnosed()
    assert "quality.command" in next_of(story.loop).reason
    story.edit(chat(change=change))
    found = next_of(story.loop)
    assert found.command == "${EDITOR:-vi} chat.toml"
    assert "model may worsen the quality of the answers; [quality] is empty" in found.reason
    assert story.loop.state(Task.CHANGE).state is TaskStatus.OPEN
    story.edit(chat(change=change, quality=QualityCheck(command="./check {side}")))
    assert _next(story) == "latspan verify chat"
    story.edit(chat())
    assert _next(story) == "latspan verify chat"


def test_a_change_without_a_description_is_not_done(story: Story) -> None:
    """The write-up would not state what was changed."""
    story.edit(chat(change=replace(chat().change, description="")))
    for step in (story.measured, story.diagnosed, story.verified, story.documented):
        step()
    assert _open_criteria(story.loop) == ["one lever is changed, and described"]
    assert next_of(story.loop).reason == "fill in change.description"
