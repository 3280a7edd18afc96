"""
OpenAI chat completions: chunk objects and bodies from the SDK or from compatible servers.

Chunks of the SDK are models, so their fields are read as attributes; those of a plain HTTP client
are bytes. The SDK keeps unknown fields, which compatible servers add, in ``model_extra``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final, cast

from latspan import semconv
from latspan._model.wire._api_format import ApiFormat, ChunkKind, StreamFormat, all_finished
from latspan._model.wire._body import IDENTITY, Body, copied, fields_without, named_in, to_plain
from latspan._model.wire._content import read, thinking_in
from latspan._model.wire._fields import choices_requested, listed_choices
from latspan._model.wire._openai_chat_content import OPENAI_CHAT_CONTENT, REASONING_FIELDS
from latspan._model.wire._usage import Usage, get_path, mapping

# Plain integers, because comparing and storing them costs a third of the time of enum members.
_EMPTY = int(ChunkKind.EMPTY)
_REASONING = int(ChunkKind.REASONING)
_VISIBLE = int(ChunkKind.VISIBLE)


def kind_of(chunk: Any) -> int:
    """
    Return the :class:`ChunkKind` of a ``chat.completion.chunk`` as a plain integer.

    Never raises: an object without the shape of a chunk contains no token.
    """
    try:
        for choice in chunk.choices:
            delta = choice.delta
            content = delta.content
            if content:
                return _VISIBLE if content.__class__ is str else kind_of_content(content)
            kind = _kind_without_content(delta)
            if kind:
                return kind
    except (AttributeError, TypeError):
        pass
    return _EMPTY


def kind_of_content(content: Any) -> int:
    """
    Return the kind of a message's content, which is not empty.

    Mistral's models return a list of parts if they reason. A part that is not text, for example a
    reference to a document, was generated too and is visible.
    """
    if not isinstance(content, list):
        return _VISIBLE
    kind = _EMPTY
    for part in cast("list[object]", content):
        if read(part, "type") == "thinking":
            kind = kind or (_REASONING if thinking_in(part) else _EMPTY)
        elif read(part, "type") != "text" or read(part, "text"):
            return _VISIBLE
    return kind


def _kind_without_content(delta: Any) -> int:
    # Other SDKs have classes of the same shape, without the fields that their servers do not send.
    if getattr(delta, "refusal", None):
        return _VISIBLE
    for call in getattr(delta, "tool_calls", None) or ():
        function = call.function
        if function is not None and function.arguments:
            return _VISIBLE
        if read(getattr(call, "custom", None), "input"):
            return _VISIBLE
    call = getattr(delta, "function_call", None)
    if call is not None and call.arguments:
        return _VISIBLE
    # Reasoning is a field that the SDK declares, or an undeclared one in `model_extra`.
    fields: Mapping[str, Any] | None
    for fields in (delta.__dict__, getattr(delta, "model_extra", None)):
        if not fields:
            continue
        for name in REASONING_FIELDS:
            if fields.get(name):
                return _REASONING
        for detail in fields.get("reasoning_details") or ():
            # An encrypted detail is not text: the client only returns it with the next request.
            if read(detail, "text") or read(detail, "summary"):
                return _REASONING
    # The SDK defines this field from openai 3 on; before, it is an unknown field.
    audio = getattr(delta, "audio", None)
    if audio is None:
        return _EMPTY
    return _VISIBLE if read(audio, "data") or read(audio, "transcript") else _EMPTY


def only_text(chunk: Any) -> int:
    """
    Return the kind of a chunk with one choice and no finish reason, and 0 for any other chunk.

    It does not check for usage, see :func:`continuous_usage`. Never raises.
    """
    try:
        (choice,) = chunk.choices
        # Some servers send an empty finish reason with each chunk.
        if not choice.finish_reason:
            delta = choice.delta
            content = delta.content
            if content:
                # Without a function call, because this runs for each chunk.
                return _VISIBLE if content.__class__ is str else kind_of_content(content)
            return _kind_without_content(delta)
    except (AttributeError, TypeError, ValueError):
        pass
    return _EMPTY


def continuous_usage(first: Body) -> bool:
    """
    Return whether every chunk of a stream has usage, judged by the first chunk.

    If not, usage arrives with the finish reason or in a chunk without text. :func:`only_text`
    therefore does not check for usage, which saves a tenth of the time per chunk.

    Source: ``stream_options.continuous_usage_stats`` of vLLM.
    """
    return bool(first.get("usage"))


# A quote inside a JSON string is escaped, so text cannot look like a key. `(?!")` excludes empty
# values.
_TOKEN: Final = re.compile(
    rb"""
    "(?:(?:content|refusal|arguments|input|audio"\s*:\s*\{[^{}]*?"(?:data|transcript))()
      |content"\s*:\s*\[\s*\{[^{}]*?"(?:text()|thinking"\s*:\s*\[\s*\{[^{}]*?"text)
      |reasoning_content|reasoning|reasoning_details"\s*:\s*\[\s*\{[^{}]*?"(?:text|summary)
    )"\s*:\s*"(?!")
    """,
    re.VERBOSE,
)
"""Fields that contain tokens. One of the two empty groups matches only for visible content."""


_CONTENT: Final = b'"content":"'
_CONTENT_EMPTY: Final = b'"content":""'

_CONTEXT: Final = b'"context"'
_ANNOTATIONS: Final = b'"annotations"'


def _without_documents(event: bytes) -> bytes:
    """
    Return the deltas of a chunk without retrieved documents, which were not generated.

    Sources: Azure OpenAI, "On Your Data" (``context``); OpenAI and OpenRouter, web search
    (``annotations``).
    """
    deltas = [dict(mapping(choice.get("delta"))) for choice in listed_choices((to_plain(event),))]
    for delta in deltas:
        delta.pop("context", None)
        delta.pop("annotations", None)
    return json.dumps(deltas).encode()


def _kind_of_event(event: bytes) -> int:
    if _CONTEXT in event or _ANNOTATIONS in event:
        event = _without_documents(event)
    # Most events contain text, and finding bytes takes a third of the time of a regular expression.
    if _CONTENT in event and _CONTENT_EMPTY not in event:
        return _VISIBLE
    kind = _EMPTY
    for found in _TOKEN.finditer(event):
        if found.lastindex is not None:
            return _VISIBLE
        kind = _REASONING
    return kind


def finish_reasons(bodies: Iterable[Body]) -> dict[int, str | None]:
    """Return the finish reasons in ``bodies`` by choice, ``None`` for a choice without one."""
    reasons: dict[int, str | None] = {}
    for choice in listed_choices(bodies):
        index, reason = choice.get("index"), choice.get("finish_reason")
        if not isinstance(index, int):
            index = 0
        # Some servers send an empty reason with each chunk, and a choice may occur again after
        # its last text, in a chunk with other fields. Neither must erase an earlier reason.
        reasons[index] = str(reason) if reason else reasons.get(index)
    return reasons


_NAMED: Final = {
    **IDENTITY,
    "service_tier": semconv.OPENAI_RESPONSE_SERVICE_TIER,
    "system_fingerprint": semconv.OPENAI_RESPONSE_SYSTEM_FINGERPRINT,
}


attributes: Final = partial(named_in, names=_NAMED)
"""Returns the span attributes that bodies contain, except the finish reasons."""


def usage(bodies: Iterable[Body]) -> Usage | None:
    """Return the last ``usage`` object in ``bodies``: counts are cumulative, so it is the total."""
    found: Body | None = None
    for body in bodies:
        counted = body.get("usage")
        if not counted and "x_groq" in body:
            # Groq adds a field of its own to the last chunk of a stream.
            counted = get_path(body, "x_groq", "usage")
        elif not counted:
            # Moonshot adds usage to the last choice of a stream.
            listed = listed_choices((body,))
            counted = next((each["usage"] for each in listed if "usage" in each), None)
        found = counted or found
    if found is None:
        return None
    counts = mapping(found)
    input_details = mapping(counts.get("prompt_tokens_details"))
    output_details = mapping(counts.get("completion_tokens_details"))
    return Usage(
        input=counts.get("prompt_tokens"),
        # The other name is DeepSeek's.
        cached=input_details.get("cached_tokens", counts.get("prompt_cache_hit_tokens")),
        cache_write=input_details.get("cache_write_tokens"),
        output=counts.get("completion_tokens"),
        reasoning=output_details.get("reasoning_tokens"),
        total=counts.get("total_tokens"),
        audio_input=input_details.get("audio_tokens"),
        audio_output=output_details.get("audio_tokens"),
    )


_IN_A_CHOICE: Final = ("error", "usage")
"""Fields that some servers add to a choice: OpenRouter, and Moonshot."""


def body_of(response: Any) -> Body:
    """Return the fields of a chunk or a completion except its text."""
    body = fields_without(response, "choices")
    if body is None:
        return to_plain(response)
    choices: list[dict[str, Any]] = []
    for choice in getattr(response, "choices", None) or ():
        kept = {
            "index": getattr(choice, "index", None),
            "finish_reason": getattr(choice, "finish_reason", None),
        }
        extra: Mapping[str, Any] | None = getattr(choice, "model_extra", None)
        if extra:
            kept |= {name: copied(extra[name]) for name in _IN_A_CHOICE if extra.get(name)}
        choices.append(kept)
    body["choices"] = choices
    return body


def ended(bodies: Iterable[Body]) -> bool:
    """
    Return whether the stream reached its end.

    The end is reached if every choice has a finish reason, or if a chunk has usage and no choices.
    Such a chunk follows all finish reasons. It is needed for a stream with several choices, whose
    finish reasons may be in chunks older than those kept.
    """
    bodies = tuple(bodies)
    for body in bodies:
        if body.get("usage") and not body.get("choices"):
            return True
    return all_finished(finish_reasons(bodies))


OPENAI_CHAT: Final = ApiFormat(
    name="openai.chat",
    operation="chat",
    is_complete=ended,
    finish_reasons=finish_reasons,
    usage=usage,
    classify_chunk=kind_of,
    only_text=only_text,
    continuous_usage=continuous_usage,
    to_mapping=body_of,
    content=OPENAI_CHAT_CONTENT,
    attributes=attributes,
    choices_requested=choices_requested,
    stream=StreamFormat(
        # Some servers omit `object`. An error sent instead of a response begins with `error`. The
        # search after each "choices" stops at the next one, so that the time is linear in the
        # length of the event.
        opens=re.compile(
            rb'"object"\s*:\s*"chat\.completion\.chunk"|\{"error"\s*:'
            rb'|"choices"\s*:\s*\[\s*\{(?:(?!"choices").)*?"delta"\s*:\s*\{',
            re.DOTALL,
        ),
        classify_chunk=_kind_of_event,
        provider="openai",
    ),
)
