"""The operations of the client as programs. Their arguments are the fields of the JSON, with types of `types.py`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

import httpx

from . import types
from .errors import NotFound
from .exchange import Program, read, write

if TYPE_CHECKING:
    from typing_extensions import Unpack

# What one batch may hold: memories, and bytes of their texts and metadata.
_BATCH_MEMORIES, _BATCH_BYTES = 50, 400 * 1024
_BULK_IDS = 500


class TaggedMemory(types.AnchoredMemory, total=False):
    """A memory with its etag, for `update` and `delete`."""

    etag: str


def create(
    *,
    etag: str | None = None,
    is_new: bool = False,
    tool: str | None = None,
    idempotency_key: str | None = None,
    **fields: Unpack[types.NewMemory],
) -> Program[types.WrittenMemory]:
    """Stores a memory. With the `external_id` of a present one, replaces it; with `is_new`, raises `ConditionFailed`
    instead, and with `etag` if it changed since. `tool` is what stored it."""
    return _memory((yield write(
        "POST", "/agent/nodes", fields, etag=etag, is_new=is_new, tool=tool, idempotency_key=idempotency_key
    )))


def create_batch(
    *, tool: str | None = None, idempotency_key: str | None = None, **fields: Unpack[types.NewMemories]
) -> Program[list[types.BatchItem]]:
    """Stores the memories `nodes`, all or none: 1 to 50."""
    response = yield write("POST", "/agent/nodes/batch", fields, tool=tool, idempotency_key=idempotency_key)
    return response.json()["results"]


def get(id: str, *, anchor: bool | None = None, as_of: str | None = None) -> Program[TaggedMemory]:
    """The memory with this id, with its `etag`."""
    return _memory((yield read("GET", _path(id), {"anchor": anchor, "as_of": as_of})))


def get_by_external_id(
    external_id: str, *, namespace: str, consistency: Literal["local", "linearizable"] = "local"
) -> Program[types.Memory]:
    """The memory to which a client has given this id. Its namespace is that of its creation."""
    found = yield from page(external_id=external_id, namespace=namespace, consistency=consistency)
    if not found["items"]:
        raise NotFound(404, "not_found", f"no memory of {namespace} has the external_id {external_id}")
    return found["items"][0]


def update(
    id: str, *, etag: str | None = None, idempotency_key: str | None = None, **fields: Unpack[types.MemoryChanges]
) -> Program[TaggedMemory]:
    """Changes fields of a memory. With `etag`, raises `ConditionFailed` if it changed since."""
    return _memory((yield write("PATCH", _path(id), fields, etag=etag, idempotency_key=idempotency_key)))


def delete(
    id: str, *, reject: bool | None = None, etag: str | None = None, idempotency_key: str | None = None
) -> Program[types.Deleted]:
    """Deletes a memory. With `reject`, captures and imports do not bring its text back. With `etag`, raises
    `ConditionFailed` if it changed since."""
    return (yield write(
        "DELETE", _path(id), query={"reject": reject}, etag=etag, idempotency_key=idempotency_key
    )).json()


def delete_batch(ids: Iterable[str], *, idempotency_key: str | None = None) -> Program[types.BulkDeleted]:
    """Deletes the memories with these ids: 1 to 500. Rejections are counted in the result."""
    body = {"ids": list(ids)}
    return (yield write("POST", "/agent/nodes/bulk-delete", body, idempotency_key=idempotency_key)).json()


def page(*, cursor: str | None = None, **filters: Unpack[types.ListFilters]) -> Program[types.MemoryPage]:
    """A page of a list, which begins at the `next_cursor` of another one."""
    query: dict[str, Any] = {"cursor": cursor, **filters}
    if query.get("filter") is not None:
        query["filter"] = json.dumps(query["filter"])
    return (yield read("GET", "/agent/nodes", query)).json()


class Pages:
    """A list, page by page: by default the oldest memory first, so that each is listed once."""

    def __init__(self, filters: types.ListFilters) -> None:
        self._filters: types.ListFilters = {"sort": "created_at", "order": "asc", "page_size": 100, **filters}
        self._cursor: str | None = None
        self.is_end = False

    def next(self) -> Program[list[types.Memory]]:
        """The memories of the next page."""
        found = yield from page(cursor=self._cursor, **self._filters)
        self._cursor = found["next_cursor"]
        self.is_end = self._cursor is None
        return found["items"]


def select(
    keep: Callable[[types.Memory], bool], *, count: float = math.inf, **filters: Unpack[types.ListFilters]
) -> Program[list[types.Memory]]:
    """The first `count` memories of a list that `keep` accepts."""
    pages = Pages(filters)
    kept: list[types.Memory] = []
    while not pages.is_end and len(kept) < count:
        kept += filter(keep, (yield from pages.next()))
    return kept if count == math.inf else kept[: int(count)]


def create_all(nodes: Iterable[types.NewMemory], *, tool: str | None = None) -> Program[None]:
    """Stores any number of memories in their order: in as few batches as possible, of which each is stored or not."""
    batch: list[types.NewMemory] = []
    size = 0
    for node in nodes:
        added = len(json.dumps(node))
        if batch and (len(batch) == _BATCH_MEMORIES or size + added > _BATCH_BYTES):
            yield from create_batch(nodes=batch, tool=tool)
            batch, size = [], 0
        batch.append(node)
        size += added
    if batch:
        yield from create_batch(nodes=batch, tool=tool)


def delete_all(ids: Iterable[str]) -> Program[None]:
    """Deletes any number of memories. Those that do not exist are left out."""
    remaining = list(ids)
    while remaining:
        result = yield from delete_batch(remaining[:_BULK_IDS])
        # What was not reached may be any of them, and the deletion of a deleted memory changes nothing.
        remaining = remaining if result["remaining"] else remaining[_BULK_IDS:]


def search(**fields: Unpack[types.Search]) -> Program[list[types.SearchResult]]:
    """The memories that match a query, the best first."""
    return (yield read("POST", "/agent/search", body=fields)).json()


def hot_context(**fields: Unpack[types.HotContext]) -> Program[list[types.Memory]]:
    """Pinned and hot memories."""
    return (yield read("POST", "/agent/hot-context", body=fields)).json()


def context(**fields: Unpack[types.ContextRequest]) -> Program[types.LoadedContext]:
    """A text for the prompt of an agent's turn, within a budget of tokens."""
    return (yield read("POST", "/agent/context", body=fields)).json()


def feedback(
    id: str, *, signal: types.Signal, idempotency_key: str | None = None
) -> Program[types.FeedbackEffect]:
    """Rates a memory."""
    return (yield write("POST", _path(id, "/feedback"), {"signal": signal}, idempotency_key=idempotency_key)).json()


def boost(id: str, *, strength: float | None = None, idempotency_key: str | None = None) -> Program[TaggedMemory]:
    """Warms a memory."""
    return _memory((yield write("POST", _path(id, "/boost"), {"strength": strength}, idempotency_key=idempotency_key)))


def supersede(id: str, *, by: str, idempotency_key: str | None = None) -> Program[TaggedMemory]:
    """States that the memory `by` replaces this one."""
    return _memory((yield write("POST", _path(id, "/supersede"), {"by": by}, idempotency_key=idempotency_key)))


def versions(id: str) -> Program[list[types.VersionView]]:
    """The texts that a memory has had, the newest first."""
    return (yield read("GET", _path(id, "/versions"))).json()["versions"]


def identity() -> Program[types.Identity]:
    """The key, its tenant and its namespaces."""
    return (yield read("GET", "/auth/verify")).json()


def storage() -> Program[types.StorageUse]:
    """Counts of memories: of each namespace, and in total."""
    return (yield read("GET", "/agent/storage")).json()


def _path(id: str, below: str = "") -> str:
    return f"/agent/nodes/{quote(id, safe='')}{below}"


def _memory(response: httpx.Response) -> Any:
    memory = response.json()
    # A repeated write that was done before: another client may have deleted the memory in between.
    if memory.get("deleted"):
        raise NotFound(404, "not_found", f"the memory {memory['id']} was deleted after this write")
    if "ETag" in response.headers:
        memory["etag"] = response.headers["ETag"]
    return memory
