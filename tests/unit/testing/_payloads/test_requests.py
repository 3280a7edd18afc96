"""The end of its path selects the API of a request."""

from __future__ import annotations

import json

import pytest

from latspan.testing._http import HttpRequest
from latspan.testing._payloads import InvalidRequestError, read_request
from latspan.testing._payloads.openai import OpenAIChat, OpenAICompletions
from latspan.testing._script import PayloadPart, Script
from support.answers import as_request, play


@pytest.mark.parametrize(
    ("http_request", "status"),
    [
        (as_request({"messages": []}, path="/v1/nothing"), 404),
        (as_request({"messages": []}, method="GET"), 405),
        (as_request({}, path="/v1/models"), 405),
        (as_request(b"{bad"), 400),
        (as_request({"model": "m"}), 400),
        (as_request({"messages": []}, path="/v1/completions"), 400),
    ],
)
def test_an_invalid_request_gets_the_right_status(http_request: HttpRequest, status: int) -> None:
    """The status shows whether the path, the method or the body was wrong."""
    with pytest.raises(InvalidRequestError) as caught:
        read_request(http_request)

    assert caught.value.status == status


def test_an_error_has_the_shape_of_its_api() -> None:
    """Each client library reads its own shape; for unknown paths it is OpenAI's."""
    payloads = {}
    for path in ("/v1/messages", "/v1/responses", "/nothing"):
        with pytest.raises(InvalidRequestError) as caught:
            read_request(as_request(b"{bad", path=path))
        payloads[path] = json.loads(json.dumps(caught.value.payload))

    assert payloads["/v1/messages"]["type"] == "error"
    assert payloads["/v1/messages"]["error"]["type"] == "invalid_request_error"
    assert payloads["/v1/responses"]["error"]["type"] == "invalid_request_error"
    assert payloads["/nothing"]["error"]["code"] == 404


def test_a_deployments_prefix_may_precede_the_path() -> None:
    """As on Azure; chat completions are distinguished from the older completions."""
    path = "/openai/deployments/m/chat/completions"
    assert read_request(as_request({"messages": []}, path=path)).api is OpenAIChat
    assert read_request(as_request({"prompt": ""}, path="/completions")).api is OpenAICompletions


def test_a_list_of_models_needs_no_script() -> None:
    """It is sent immediately, takes no slot, and has the fields of both client libraries."""
    played = play(Script(), path="/v1/models", method="GET")

    assert played.pieces == [PayloadPart.HEADERS, PayloadPart.BODY]
    assert not played.answer.needs_slot
    (model,) = played.body["data"]
    assert (model["id"], model["object"], model["type"]) == ("scripted", "model", "model")
    assert played.body["has_more"] is False
