"""Conversion of images, audio and files in each API's messages to the conventions' shape."""

from __future__ import annotations

import base64
import mimetypes
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast
from urllib.parse import unquote_to_bytes

_Part = Mapping[str, Any]

_KINDS: Final = frozenset({"blob", "file", "uri"})

_AUDIO: Final = {"wav": "audio/wav", "mp3": "audio/mpeg"}
"""Media types of OpenAI's audio formats whose names differ from the media type."""

_MODALITIES: Final = {
    "audio": "audio",
    "computer_screenshot": "image",
    "container_upload": "document",
    "document": "document",
    "file": "document",
    "image": "image",
    "image_url": "image",
    "input_audio": "audio",
    "input_file": "document",
    "input_image": "image",
    "video": "video",
}
"""Modality by the type of an API's content block."""


def blob(modality: str, mime_type: object, content: str) -> _Part:
    """
    Return a part that contains the data itself.

    Args:
        modality: ``image``, ``audio``, ``video`` or ``document``.
        mime_type: The media type, ``None`` if the API does not name it.
        content: The data in base64.
    """
    return {"type": "blob", "mime_type": mime_type, "modality": modality, "content": content}


def media_in(block: Mapping[str, Any]) -> _Part | None:
    """
    Return the part for a content block of a message, ``None`` for a block without media.

    If the data of a block cannot be found, for example because it is a file handle, the part has
    only the modality.

    Args:
        block: A content block in the shape of any known API.

    Source: OpenTelemetry GenAI conventions, ``BlobPart``, ``FilePart`` and ``UriPart`` of the
    JSON schema of ``gen_ai.input.messages``.
    """
    kind = str(block.get("type"))
    modality = _MODALITIES.get(kind)
    if modality is None:
        return None
    # Each API nests the description of the data in a different field, or does not nest it.
    inner: object = block.get("source") or block.get(kind) or block.get("image_url")
    if isinstance(inner, str):
        inner = {"url": inner}
    described = {**block, **(cast("Mapping[str, Any]", inner) if isinstance(inner, dict) else {})}
    return _referenced(described, modality) or _held(described, modality) or _unknown(modality)


def _referenced(described: Mapping[str, Any], modality: str) -> _Part | None:
    """Return a part that refers to its data, by the id of an uploaded file or by URL."""
    file_id = described.get("file_id")
    if isinstance(file_id, str) and file_id:
        mime_type = _mime_type(described)
        return {"type": "file", "mime_type": mime_type, "modality": modality, "file_id": file_id}
    url = described.get("url") or described.get("file_url")
    if not isinstance(url, str) or not url:
        return None
    if url.startswith("data:"):
        return _from_data_url(url, modality)
    return {"type": "uri", "mime_type": _mime_type(described), "modality": modality, "uri": url}


def _held(described: Mapping[str, Any], modality: str) -> _Part | None:
    data = described.get("data") or described.get("file_data")
    if not isinstance(data, str) or not data:
        return None
    if data.startswith("data:"):
        return _from_data_url(data, modality)
    return blob(modality, _mime_type(described), data)


def _from_data_url(url: str, modality: str) -> _Part:
    """Return the part for a ``data:`` URL, whose data is in base64 or percent-encoded."""
    head, _, data = url.removeprefix("data:").partition(",")
    mime_type, _, parameters = head.partition(";")
    if "base64" not in parameters.lower():
        data = base64.b64encode(unquote_to_bytes(data)).decode("ascii")
    return blob(modality, mime_type or None, data)


def _mime_type(described: Mapping[str, Any]) -> str | None:
    media_type, name = described.get("media_type"), described.get("filename")
    if isinstance(media_type, str):
        return media_type
    if isinstance(name, str):
        return mimetypes.guess_type(name)[0]
    return _AUDIO.get(str(described.get("format")))


def _unknown(modality: str) -> _Part:
    return {"type": "blob", "mime_type": None, "modality": modality}


def without_media(value: Any) -> Any:
    """
    Return parts or messages without the data and references of their media.

    The type, modality and media type of each media part are kept.

    Args:
        value: Messages, parts, or any value inside them.
    """
    if isinstance(value, Mapping):
        part = cast("Mapping[str, Any]", value)
        if part.get("type") in _KINDS and "modality" in part:
            return {name: part.get(name) for name in ("type", "mime_type", "modality")}
        return {name: without_media(inner) for name, inner in part.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [without_media(inner) for inner in cast("Sequence[Any]", value)]
    return value
