"""
Instrumentation of Amazon Bedrock's runtime in botocore, which boto3 sends through.

Recorded are ``converse``, ``converse_stream``, ``invoke_model`` and
``invoke_model_with_response_stream``. Clients, results, streams and bodies remain botocore's own
objects. The calls of other AWS services are not recorded.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from latspan.integrations import Instrumentor, Patches, patch_method, patch_stream

__all__ = ["BotocoreInstrumentor"]


class BotocoreInstrumentor(Instrumentor):
    """Instrumentor that switches the instrumentation of Bedrock's runtime on and off."""

    requires = ("botocore >= 1.34.116, < 2",)

    def patch(self, patches: Patches) -> None:
        """
        Patch the method that sends every request of every service, and the class of event streams.

        botocore creates the methods of a client from the description of its service, so a client
        has no methods that could be patched. Both modules are patched when they are imported:
        ``import botocore`` imports neither.
        """
        patches.when_imported("botocore.client", partial(_patch_client, patches))
        patches.when_imported("botocore.eventstream", partial(_patch_streams, patches))


def _patch_client(patches: Patches) -> None:
    from botocore.client import BaseClient

    from latspan_instrumentation.botocore._requests import open_request

    patch_method(
        patches,
        BaseClient,
        "_make_api_call",
        open_request,
        positional=("operation_name", "api_params"),
        stream_of=_stream_of,
    )


def _patch_streams(patches: Patches) -> None:
    from botocore.eventstream import EventStream

    patch_stream(patches, EventStream)


def _stream_of(result: Any) -> Any:
    """Return the event stream in a result, or the HTTP response that its body is read from."""
    stream = result.get("stream") or result.get("body")
    # botocore has no public attribute for the response of urllib3 inside a `StreamingBody`.
    return getattr(stream, "_raw_stream", stream) if hasattr(stream, "iter_lines") else stream
