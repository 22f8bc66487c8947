"""A memory service of the Agent Development Kit in Hearth.

    Runner(agent=agent, memory_service=HearthMemoryService(), ...)

Each event with text is a memory: its words are the text of the memory, in the namespace of the app and the user below
`root`. A session that is added again replaces its events, so nothing is stored twice.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry

from . import operations
from .client import AsyncClient
from .encoding import external_id_of, fitting, namespace_of
from .errors import NotFound
from .exchange import Program
from .types import Memory, NewMemory

if TYPE_CHECKING:
    from google.adk.events.event import Event
    from google.adk.sessions.session import Session
    from google.genai.types import Content

_RESULTS = 10
# Metadata has at most 16 KiB, quotation marks of this JSON escaped.
_ENTRY_BYTES = 12 * 1024


class HearthMemoryService(BaseMemoryService):
    """Memories of users of apps."""

    def __init__(self, client: AsyncClient | None = None, *, root: str = "google-adk") -> None:
        self._client = client or AsyncClient()
        self._root = root

    async def add_session_to_memory(self, session: Session) -> None:
        await self.add_events_to_memory(
            app_name=session.app_name, user_id=session.user_id, events=session.events, session_id=session.id
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Stores events. `custom_metadata` is kept with each."""
        entries = [
            MemoryEntry(
                id=external_id_of(session_id or "-", event.id),
                content=event.content,
                author=event.author,
                timestamp=datetime.fromtimestamp(event.timestamp, timezone.utc).isoformat(),
            )
            for event in events
            if event.content
        ]
        await self._add(namespace_of(self._root, app_name, user_id), entries, custom_metadata)

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Stores memories. One with the id of a present one replaces it."""
        await self._add(namespace_of(self._root, app_name, user_id), memories, custom_metadata)

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """The ten memories of the user that match best."""
        if not query.strip():
            return SearchMemoryResponse()
        namespace = namespace_of(self._root, app_name, user_id)
        found = await self._client.search(query=query, namespace=namespace, limit=_RESULTS, tier="all")
        return SearchMemoryResponse(memories=[_entry(memory) for memory in found])

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Deletes the memory of the user with this id, if it exists."""
        if memory_id:
            await self._client.run(_delete(namespace_of(self._root, app_name, user_id), memory_id))

    async def _add(
        self, namespace: str, entries: Iterable[MemoryEntry], custom_metadata: Mapping[str, object] | None
    ) -> None:
        nodes = list(_nodes(namespace, entries, custom_metadata or {}))
        await self._client.run(operations.create_all(nodes, tool="google-adk"))


def _nodes(
    namespace: str, entries: Iterable[MemoryEntry], custom_metadata: Mapping[str, object]
) -> Iterator[NewMemory]:
    """The memories for those entries that a search can find: they have text."""
    for entry in entries:
        text = _text(entry.content)
        if not text.strip():
            continue
        name = f"the event {entry.id}" if entry.id else "a memory"
        # JSON of ASCII comes back exactly from metadata.
        data = entry.model_dump(mode="json", exclude_none=True, exclude={"id"})
        data["custom_metadata"] = {**custom_metadata, **entry.custom_metadata}
        if data["content"]["parts"] == [{"text": text}]:
            # The text of the memory has it.
            del data["content"]["parts"]
        yield {
            "label": fitting(text, f"the text of {name}"),
            "namespace": namespace,
            "external_id": entry.id or str(uuid.uuid4()),
            "on_duplicate": "allow",
            "metadata": {"entry": fitting(json.dumps(data), f"what {name} has beside its text", _ENTRY_BYTES)},
        }


def _entry(memory: Memory) -> MemoryEntry:
    data = json.loads(memory["metadata"]["entry"])
    data["content"].setdefault("parts", [{"text": memory["label"]}])
    return MemoryEntry.model_validate_json(json.dumps(data | {"id": memory["external_id"]}))


def _text(content: Content) -> str:
    return " ".join(part.text for part in content.parts or () if part.text)


def _delete(namespace: str, external_id: str) -> Program[None]:
    # It may be deleted already, or never have existed.
    with suppress(NotFound):
        memory = yield from operations.get_by_external_id(external_id, namespace=namespace)
        yield from operations.delete(memory["id"])
