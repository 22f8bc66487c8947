"""A memory block of LlamaIndex in Hearth.

    memory = Memory.from_defaults(session_id="user-17", memory_blocks=[HearthMemoryBlock()])

The messages that leave the short-term memory are stored, each as a memory, in the namespace of their session below
`root`. The block returns those of the session that match the latest messages, one in a line.
"""

from __future__ import annotations

from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import Field
from llama_index.core.memory.memory import BaseMemoryBlock

from . import operations
from .client import AsyncClient
from .encoding import fitting, namespace_of
from .types import NewMemory, Search

_QUERY_BYTES = 8 * 1024


class HearthMemoryBlock(BaseMemoryBlock[str]):
    """Long-term memory by meaning."""

    name: str = Field(default="hearth", description="The name of the memory block.")
    client: AsyncClient = Field(default_factory=AsyncClient, exclude=True, description="The client of the cluster.")
    root: str = Field(default="llama-index", description="The namespace above those of the sessions.")
    limit: int = Field(default=5, description="How many messages the block returns.")
    latest: int = Field(default=3, description="How many of the latest messages are the query.")
    all_sessions: bool = Field(default=False, description="Whether to return messages of all sessions below `root`.")

    async def _aget(
        self, messages: list[ChatMessage] | None = None, session_id: str | None = None, **_: Any
    ) -> str:
        query = "\n".join(message.content or "" for message in (messages or [])[-self.latest :])
        if not query.strip():
            return ""
        # The end of a query has its latest words.
        query = query.encode()[-_QUERY_BYTES:].decode(errors="ignore")
        fields: Search = {"query": query, "limit": self.limit, "tier": "all"}
        if self.all_sessions:
            fields["namespace_prefix"] = self.root
        else:
            fields["namespace"] = self._namespace(session_id)
        found = await self.client.search(**fields)
        return "\n".join(f"{memory['metadata'].get('role')}: {memory['label']}" for memory in found)

    async def _aput(self, messages: list[ChatMessage]) -> None:
        """Stores messages with text. Equal messages stay separate."""
        nodes: list[NewMemory] = [
            {
                "label": fitting(message.content or "", "a message"),
                "namespace": self._namespace(message.additional_kwargs.get("session_id")),
                "on_duplicate": "allow",
                "metadata": {"role": message.role.value},
            }
            for message in messages
            if (message.content or "").strip()
        ]
        await self.client.run(operations.create_all(nodes, tool="llama-index"))

    def _namespace(self, session_id: str | None) -> str:
        return namespace_of(self.root, session_id) if session_id else self.root
