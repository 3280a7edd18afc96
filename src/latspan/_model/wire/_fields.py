"""
Bodies in the shape of a chat completion: their choices, and fields for APIs of another shape.

The modules of such APIs return bodies with ``id``, ``model``, ``choices`` and ``usage``, so that
the functions of OpenAI's format read the finish reasons; ``usage`` keeps the API's own names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from latspan._model.wire._body import Body, to_plain
from latspan._model.wire._content import read


def plain_or_object(response: Any) -> Any:
    """Return bytes as a plain mapping, and any other response unchanged."""
    return to_plain(response) if isinstance(response, bytes) else response


def either(value: Any, camel: str, snake: str) -> Any:
    """
    Return a field of a mapping or an object, ``None`` if it is missing.

    Args:
        value: The mapping or the object.
        camel: Name of the field in JSON.
        snake: Name of the field in the SDK.
    """
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        found = fields.get(camel)
        return fields.get(snake) if found is None else found
    return getattr(value, snake, None)


def sequence(value: Any) -> list[Any] | tuple[Any, ...]:
    """Return ``value`` if it is a list or a tuple, otherwise an empty one."""
    return cast("list[Any]", value) if isinstance(value, list | tuple) else ()


def given(value: Any, *names: str) -> dict[str, Any]:
    """Return the fields of a mapping or an object that are text, numbers or booleans."""
    found = {name: read(value, name) for name in names}
    return {name: each for name, each in found.items() if isinstance(each, str | int | float)}


def finished(reason: object, index: object = 0) -> Mapping[str, Any]:
    """Return a choice with its finish reason, which is ``None`` if there is none so far."""
    text = getattr(reason, "value", reason)
    position = index if isinstance(index, int) else 0
    return {"index": position, "finish_reason": text if isinstance(text, str) and text else None}


def choices_requested(request: Mapping[str, Any]) -> int:
    """
    Return the number of requested choices: ``n`` per prompt.

    Args:
        request: The request's fields as sent, by the API's names.
    """
    each = request.get("n")
    each = each if isinstance(each, int) and each > 1 else 1
    prompts: object = request.get("prompt")
    if prompts is None or not isinstance(prompts, list | tuple):
        return each
    several = cast("list[object] | tuple[object, ...]", prompts)
    # A list of numbers is one prompt, given as token ids.
    return each * max(1, sum(not isinstance(prompt, int) for prompt in several))


def listed_choices(bodies: Iterable[Body]) -> list[dict[str, Any]]:
    """Return the choices in ``bodies``, in order; what is not a mapping is left out."""
    choices: list[dict[str, Any]] = []
    for body in bodies:
        listed: Any = body.get("choices")
        if listed and isinstance(listed, list):
            found = cast("list[dict[str, Any]]", listed)
            # Nearly always true, and a comprehension is a further function for each body.
            if {*map(type, found)} == {dict}:
                choices += found
            else:
                choices += [each for each in found if isinstance(each, dict)]  # pyright: ignore[reportUnnecessaryIsInstance]
    return choices


_REASON: Final = re.compile(rb'"finish_reason"\s*:\s*"(?!")')


def has_finish_reason(part: Body | bytes) -> bool:
    """Return whether a chunk, as a body or as bytes, has a finish reason that is not empty."""
    if isinstance(part, bytes):
        return _REASON.search(part) is not None
    return any(choice.get("finish_reason") for choice in listed_choices((part,)))


def choices_in(bodies: Iterable[Body]) -> int:
    """Return the minimum number of choices implied by the indices in ``bodies``; 1 if none."""
    most = 0
    for choice in listed_choices(bodies):
        index = choice.get("index")
        if isinstance(index, int) and index > most:
            most = index
    return most + 1
