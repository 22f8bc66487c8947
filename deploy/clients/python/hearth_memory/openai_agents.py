"""A session of the OpenAI Agents SDK in Hearth.

    await Runner.run(agent, "Hello", session=HearthSession("user-17"))

Each item is a memory with its JSON as text: at most 64 KiB. The order is that of their creation. The items of one call
stay together, if they fit into one batch: 50 items, 400 KiB.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from agents.memory.session_settings import SessionSettings, resolve_session_limit

from . import operations
from .client import AsyncClient
from .encoding import label_of, namespace_of
from .errors import NotFound
from .exchange import Program
from .types import Memory, NewMemory

if TYPE_CHECKING:
    from agents import TResponseInputItem


class HearthSession:
    """The items of one conversation, in a namespace below `root`. Sessions may share a client."""

    def __init__(
        self,
        session_id: str,
        client: AsyncClient | None = None,
        *,
        root: str = "openai-agents",
        session_settings: SessionSettings | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = session_settings or SessionSettings()
        self._client = client or AsyncClient()
        self._namespace = namespace_of(root, session_id)

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """All items, or the last `limit`, the oldest first."""
        limit = resolve_session_limit(limit, self.session_settings)
        memories = await self._client.run(self._last(limit))
        return [json.loads(memory["label"]) for memory in reversed(memories)]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Stores items behind the present ones. Equal items stay separate."""
        nodes: list[NewMemory] = [
            {"label": label_of(item, "an item"), "namespace": self._namespace, "on_duplicate": "allow"}
            for item in items
        ]
        await self._client.run(operations.create_all(nodes, tool="openai-agents"))

    async def pop_item(self) -> TResponseInputItem | None:
        """Removes the last item, and returns it."""
        return await self._client.run(self._pop())

    async def clear_session(self) -> None:
        """Deletes all items."""
        await self._client.run(self._clear())

    def _last(self, limit: int | None) -> Program[list[Memory]]:
        """The last memories, the newest first, with all that any client has stored."""
        count = math.inf if limit is None else max(0, limit)
        return (yield from operations.select(
            lambda _: True,
            count=count,
            namespace=self._namespace,
            order="desc",
            page_size=int(max(1, min(count, 100))),
            consistency="linearizable",
        ))

    def _pop(self) -> Program[TResponseInputItem | None]:
        while memories := (yield from self._last(1)):
            try:
                yield from operations.delete(memories[0]["id"])
                return json.loads(memories[0]["label"])
            except NotFound:
                # Another client removed it: the item before it is the last one.
                continue
        return None

    def _clear(self) -> Program[None]:
        memories = yield from self._last(None)
        yield from operations.delete_all(memory["id"] for memory in memories)
