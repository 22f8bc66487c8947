"""A store of LangGraph in Hearth.

    graph = builder.compile(store=HearthStore())

A namespace of the store is one of Hearth below `root`, a key is an external id, and a value is JSON in the text of a
memory: at most 64 KiB. A search without a query returns items in the order of their creation, those of one batch in
any order. A search with a query considers the best 100, and finds whole values. `index=False` of a put hides the item
from queries; a list of fields has no effect.

Hearth deletes an item within a minute after its TTL. The TTL begins anew when an operation that refreshes reads it.
"""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import unquote

from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
)
from langgraph.store.base import validate_op_namespace as validate

from . import operations
from .client import AsyncClient, Client
from .cluster import Cluster, find_cluster
from .encoding import external_id_of, label_of, names_of, namespace_of, time_of
from .errors import NotFound
from .exchange import Program
from .types import Memory, NewMemory

# Names in the metadata of an item, beside its short texts.
_TTL, _HIDDEN, _PARTIAL = "$ttl", "$hidden", "$partial"
# What of a value a filter finds in the index: texts that metadata certainly has room for.
_INDEXED_BYTES, _INDEXED_ENTRIES, _METADATA_BYTES = 200, 60, 15 * 1024
_RESULTS = 100


class HearthStore(BaseStore):
    """A store in the cluster that the arguments, the environment or a profile name."""

    supports_ttl = True

    def __init__(
        self, cluster: Cluster | None = None, *, root: str = "langgraph", ttl: TTLConfig | None = None
    ) -> None:
        cluster = cluster or find_cluster()
        # They share the log index, so each reads what the other one wrote.
        self._client, self._async_client = Client(cluster=cluster), AsyncClient(cluster=cluster)
        self._root = root
        self.ttl_config = ttl

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        return self._client.run(self._batch(list(ops)))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return await self._async_client.run(self._batch(list(ops)))

    def _batch(self, ops: list[Op]) -> Program[list[Result]]:
        """All reads of a batch come before its writes. Of several writes of one item, the last one counts."""
        results: list[Result] = []
        puts: dict[tuple[tuple[str, ...], str], PutOp] = {}
        for op in ops:
            validate(op)
            if isinstance(op, PutOp):
                puts[op.namespace, op.key] = op
                results.append(None)
            elif isinstance(op, GetOp):
                results.append((yield from self._get(op)))
            elif isinstance(op, SearchOp):
                results.append((yield from self._search(op)))
            elif isinstance(op, ListNamespacesOp):
                results.append((yield from self._list_namespaces(op)))
            else:
                raise ValueError(f"unknown operation: {type(op).__name__}")
        yield from operations.create_all(
            [self._memory(op, op.value) for op in puts.values() if op.value is not None], tool="langgraph"
        )
        for op in puts.values():
            if op.value is None:
                yield from self._delete(op)
        return results

    def _namespace(self, names: tuple[str, ...]) -> str:
        try:
            return namespace_of(self._root, *names)
        except ValueError as error:
            raise InvalidNamespaceError(str(error)) from None

    def _find(self, namespace: tuple[str, ...], key: str) -> Program[Memory | None]:
        try:
            return (yield from operations.get_by_external_id(
                external_id_of(key), namespace=self._namespace(namespace)
            ))
        except NotFound:
            return None

    def _get(self, op: GetOp) -> Program[Item | None]:
        memory = yield from self._find(op.namespace, op.key)
        if memory is None:
            return None
        yield from _refresh([memory], op.refresh_ttl)
        return Item(**self._fields(memory))

    def _memory(self, op: PutOp, value: Mapping[str, Any]) -> NewMemory:
        """The memory for an item. It replaces the one that the item had."""
        own: dict[str, Any] = {_HIDDEN: True} if op.index is False else {}
        memory: NewMemory = {
            "label": label_of(dict(value), f"the value of {op.key!r}"),
            "namespace": self._namespace(op.namespace),
            "external_id": external_id_of(op.key),
            "on_duplicate": "allow",
        }
        if op.ttl is not None:
            memory["ttl_seconds"] = own[_TTL] = max(1, math.ceil(op.ttl * 60))
        memory["metadata"] = _entries(value) | own
        return memory

    def _delete(self, op: PutOp) -> Program[None]:
        memory = yield from self._find(op.namespace, op.key)
        # Another client may have deleted it meanwhile.
        with suppress(NotFound):
            if memory is not None:
                yield from operations.delete(memory["id"])

    def _search(self, op: SearchOp) -> Program[list[SearchItem]]:
        prefix = self._namespace(op.namespace_prefix)
        conditions = _conditions(op.filter or {})
        end = op.offset + op.limit

        def keep(memory: Memory) -> bool:
            value = json.loads(memory["label"])
            return all(_satisfies(value.get(name), wanted) for name, wanted in (op.filter or {}).items())

        if op.query:
            conditions.append({"not": {f"metadata.{_HIDDEN}": True}})
            results = yield from operations.search(
                query=op.query,
                limit=_RESULTS if op.filter else max(1, min(end, _RESULTS)),
                namespace_prefix=prefix,
                filter={"and": conditions},
                tier="all",
            )
            found: list[Any] = list(filter(keep, results))
        else:
            found = yield from operations.select(
                keep, count=end, namespace_prefix=prefix, filter={"and": conditions}
            )
        found = found[op.offset : end]
        yield from _refresh(found, op.refresh_ttl)
        return [SearchItem(**self._fields(memory), score=memory.get("score")) for memory in found]

    def _list_namespaces(self, op: ListNamespacesOp) -> Program[list[tuple[str, ...]]]:
        storage = yield from operations.storage()
        namespaces = set(storage["namespaces"])
        # Beyond 1,000 namespaces, the counts name the largest ones only.
        if storage["namespace_count"] > len(namespaces):
            memories = yield from operations.select(lambda _: True, namespace_prefix=self._root)
            namespaces = {memory["namespace"] for memory in memories}
        found = {names_of(self._root, one) for one in namespaces if one.startswith(f"{self._root}/")}
        found = {names for names in found if all(_matches(one, names) for one in op.match_conditions or ())}
        return sorted({names[: op.max_depth] for names in found})[op.offset : op.offset + op.limit]

    def _fields(self, memory: Memory) -> dict[str, Any]:
        return {
            "value": json.loads(memory["label"]),
            "key": unquote(memory["external_id"] or ""),
            "namespace": names_of(self._root, memory["namespace"]),
            "created_at": time_of(memory["created_at"]),
            "updated_at": time_of(memory["updated_at"]),
        }


def _refresh(memories: Iterable[Memory], is_wanted: bool) -> Program[None]:
    """Begins the TTL of the memories anew that have one."""
    for memory in memories:
        if is_wanted and _TTL in memory["metadata"]:
            # It may be deleted since it was read.
            with suppress(NotFound):
                yield from operations.update(memory["id"], ttl_seconds=memory["metadata"][_TTL])


def _is_indexed(name: str, value: Any) -> bool:
    """Whether metadata has an entry of a value, which a filter finds in the index of Hearth."""
    is_text = isinstance(value, str) and value.isprintable() and name.isascii() and not name.startswith("$")
    return is_text and len(name) + len(value.encode()) <= _INDEXED_BYTES


def _entries(value: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata of an item. If its texts are too many, none of them, and a mark that any filter includes."""
    entries = {name: text for name, text in value.items() if _is_indexed(name, text)}
    is_small = len(entries) <= _INDEXED_ENTRIES and len(json.dumps(entries)) <= _METADATA_BYTES
    return entries if is_small else {_PARTIAL: True}


def _conditions(wanted: dict[str, Any]) -> list[dict[str, Any]]:
    """Conditions for Hearth that all items pass which pass the filter, so that it reads fewer items."""
    return [
        {"or": [{f"metadata.{name}": value}, {f"metadata.{_PARTIAL}": True}]}
        for name, value in wanted.items()
        if _is_indexed(name, value)
    ]


def _by_number(compare: Callable[[float, float], bool]) -> Callable[[Any, Any], bool]:
    """A comparison of numbers. What is no number, as an absent field, passes none."""

    def holds(value: Any, wanted: Any) -> bool:
        try:
            return compare(float(value), float(wanted))
        except (TypeError, ValueError):
            return False

    return holds


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": _by_number(operator.gt),
    "$gte": _by_number(operator.ge),
    "$lt": _by_number(operator.lt),
    "$lte": _by_number(operator.le),
}


def _satisfies(value: Any, wanted: Any) -> bool:
    """Whether a field of a value has what a filter requires."""
    if isinstance(wanted, dict):
        if any(name.startswith("$") for name in wanted):
            if unknown := wanted.keys() - _OPERATORS:
                raise ValueError(f"unknown operator: {', '.join(sorted(unknown))}")
            return all(_OPERATORS[name](value, operand) for name, operand in wanted.items())
        return isinstance(value, dict) and all(_satisfies(value.get(name), one) for name, one in wanted.items())
    if isinstance(wanted, (list, tuple)):
        is_list = isinstance(value, (list, tuple)) and len(value) == len(wanted)
        return is_list and all(map(_satisfies, value, wanted))
    return value == wanted


def _matches(condition: MatchCondition, names: tuple[str, ...]) -> bool:
    """Whether a namespace begins or ends with a path, in which `*` is any name."""
    path = condition.path
    part = names[: len(path)] if condition.match_type == "prefix" else names[max(0, len(names) - len(path)) :]
    return len(part) == len(path) and all(wanted in ("*", name) for wanted, name in zip(path, part))
