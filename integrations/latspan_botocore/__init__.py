"""
Instrumentation of Amazon Bedrock's runtime in botocore, which boto3 sends through.

Recorded are ``converse``, ``converse_stream``, ``invoke_model`` and
``invoke_model_with_response_stream``. Clients, results, streams and bodies remain botocore's own
objects. The calls of other AWS services are not recorded.
"""

from __future__ import annotations

from latspan_botocore._instrumentor import BotocoreInstrumentor

__all__ = ["BotocoreInstrumentor"]
