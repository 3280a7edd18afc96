"""
``/v1/models``: the list of models, for the clients of OpenAI and Anthropic.

Both clients request the same path, so one response has the fields of both.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from latspan.testing._payloads._base import Payloads
from latspan.testing._served import Ledger

__all__ = ["Models"]


class Models(Payloads):
    """Payload of one list of models."""

    method = "GET"
    requires = None
    needs_model = False

    def whole(self, ledger: Ledger) -> dict[str, Any]:  # noqa: ARG002 - the API reports no timings
        """Return a list of one model."""
        created = datetime.fromtimestamp(self.created_s, UTC)
        model = {
            "id": self.model,
            "object": "model",
            "created": self.created_s,
            "owned_by": "latspan",
            "type": "model",
            "display_name": self.model,
            "created_at": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "lifecycle": "active",
        }
        ends = {"has_more": False, "first_id": self.model, "last_id": self.model}
        return {"object": "list", "data": [model], **ends}
