"""The store of LangGraph: the same random operations on it and on `InMemoryStore`, and what only it has."""

import asyncio
import functools
import random

from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
    TTLConfig,
)
from langgraph.store.memory import InMemoryStore

from hearth_memory import Client
from hearth_memory.langgraph import HearthStore

DISTRIBUTION, EXAMPLE, REMOVES = "langgraph", "langgraph_store.py", True
OPERATIONS = 300


@functools.cache
def store():
    return HearthStore()


def namespace(worker):
    return f"langgraph/load/{worker}"


async def work(worker, number):
    path, key = ("load", str(worker)), f"key {number}"
    value = {"text": f"number {number}", "nested": [number, {"of": worker}]}
    # Workers use both interfaces.
    if worker % 2:
        await store().aput(path, key, value)
        item = await store().aget(path, key)
    else:
        await asyncio.to_thread(store().put, path, key, value)
        item = await asyncio.to_thread(store().get, path, key)
    assert item.value == value
    if number % 4 == 0:
        await store().adelete(path, key)
        assert await store().aget(path, key) is None


def check(cluster):
    results_equal_those_of_the_memory_store(random.Random(1))
    names_and_values_come_back_exactly()
    equal_values_stay_separate()
    many_texts_are_still_filtered()
    query_finds_the_right_item()
    ttl_ends_items()
    errors_are_readable()
    asyncio.run(batches_are_asynchronous_too())


def shown(result):
    """A result without times and scores. Only the Hearth store scores without an embedding model."""
    if isinstance(result, list):
        return [shown(one) for one in result]
    return (result.namespace, result.key, result.value) if hasattr(result, "value") else result


def results_equal_those_of_the_memory_store(dice):
    ours, theirs = HearthStore(root="parity"), InMemoryStore()
    paths = [("a",), ("a", "b"), ("a", "b", "c"), ("a", "c"), ("ab",), ("x", "b"), ("x", "Ünal/2 %")]
    colors = ["red", "blue", "Gr\u00fcn", "Gru\u0308n", "", " red", "true", "1", "a,b=c", '"', "\n", "*"]
    filters = [{"n": 1}, {"n": {"$gt": 2}}, {"n": {"$gte": 2, "$lt": 5}}, {"n": {"$lte": 1.5}}, {"color": "red"},
               {"color": {"$ne": "red"}}, {"color": {"$eq": "blue"}}, {"tags": ["x", "y"]}, {"deep": {"of": {"n": 3}}},
               {"color": "red", "n": {"$lt": 4}}, {"absent": None}, {"flag": True}]
    filters += [{"color": color} for color in colors]

    def value():
        number = dice.randrange(6)
        return {"n": number, "color": dice.choice(colors), "tags": dice.choice([["x", "y"], ["y"]]),
                "deep": {"of": {"n": number}}, "flag": dice.choice([True, False])}

    for number in range(OPERATIONS):
        path, key = dice.choice(paths), f"key {dice.randrange(8)}"
        kind = dice.choices(["put", "get", "delete", "search", "list"], [5, 3, 2, 4, 2])[0]
        if kind == "put":
            op = PutOp(path, key, value())
        elif kind == "get":
            op = GetOp(path, key)
        elif kind == "delete":
            op = PutOp(path, key, None)
        elif kind == "search":
            # The order of items of several namespaces is not defined, so these searches have no pages.
            limit, offset = (dice.randrange(1, 5), dice.randrange(3)) if len(path) == 3 else (1000, 0)
            prefix = path if len(path) == 3 else path[: dice.randrange(2)]
            op = SearchOp(prefix, dice.choice([None, *filters]), limit, offset)
        else:
            wanted = dice.choice([None, ("prefix", ("a",)), ("prefix", ("*", "b")), ("suffix", ("a", "*"))])
            conditions = (MatchCondition(*wanted),) if wanted else None
            op = ListNamespacesOp(conditions, dice.choice([None, 1, 2]), dice.choice([1, 2, 100]), dice.randrange(2))
        # A read of an absent namespace creates it in the memory store.
        for empty in [one for one, items in theirs._data.items() if not items]:
            del theirs._data[empty]
        left, right = shown(ours.batch([op])[0]), shown(theirs.batch([op])[0])
        if isinstance(op, SearchOp) and op.limit == 1000:
            left, right = sorted(left, key=repr), sorted(right, key=repr)
        assert left == right, f"operation {number}, {op}: {left} is not {right}"
    batch = [PutOp(("one",), "k", {"n": 1}), GetOp(("one",), "k"), PutOp(("one",), "k", {"n": 2})]
    assert ours.batch(batch) == theirs.batch(batch) == [None, None, None]
    assert ours.get(("one",), "k").value == theirs.get(("one",), "k").value == {"n": 2}


def names_and_values_come_back_exactly():
    store = HearthStore(root="exact")
    composed, decomposed = "\u00e9", "e\u0301"
    for name in [composed, decomposed, "a/b", "%2F", "*", " ", "\n", "anna@example", "日本"]:
        store.put(("n", name), name, {"name": name})
        assert [item.key for item in store.search(("n", name))] == [name]
    assert len(store.list_namespaces(prefix=("n",))) == 9
    assert store.get(("n", composed), composed).value != store.get(("n", decomposed), decomposed).value
    value = {"float": 1.0, "big": 2**70, "none": None, decomposed: decomposed, "surrogate": "\ud800", "nul": "\0",
             "list": [[], {}, ""], "$ttl": 1, "": "empty", "long": "x" * 60_000}
    store.put(("v",), "k", value)
    read = store.get(("v",), "k").value
    assert read == value and list(read) == list(value) and isinstance(read["float"], float)
    store.put(("v",), "k", {})
    assert store.get(("v",), "k").value == {}
    first = store.get(("v",), "k")
    store.put(("v",), "k", {"n": 2})
    second = store.get(("v",), "k")
    assert first.created_at == second.created_at and first.updated_at < second.updated_at


def equal_values_stay_separate():
    store = HearthStore(root="equal")
    store.batch([PutOp(("e",), f"k{number}", {"text": "the same"}) for number in range(70)])
    assert {item.key for item in store.search(("e",), limit=100)} == {f"k{number}" for number in range(70)}
    pages = [store.search(("e",), limit=7, offset=offset) for offset in range(0, 70, 7)]
    assert len({item.key for page in pages for item in page}) == 70
    store.delete(("e",), "k0")
    assert len(store.search(("e",), limit=100)) == 69


def many_texts_are_still_filtered():
    store = HearthStore(root="many")
    store.put(("m",), "many", {f"field {number}": "x" for number in range(100)})
    store.put(("m",), "few", {"field 99": "x"})
    store.put(("m",), "other", {"field 99": "y"})
    store.put(("m",), "quoted", {"field 99": "x"} | {f"field {number}": '"' * 180 for number in range(59)})
    assert [item.key for item in store.search(("m",), filter={"field 99": "x"})] == ["many", "few", "quoted"]


def query_finds_the_right_item():
    store = HearthStore(root="query")
    texts = {"units": "The user prefers metric units", "tea": "The user drinks green tea", "train": "It leaves at nine"}
    for key, text in texts.items():
        store.put(("q",), key, {"text": text, "kind": "note"})
    store.put(("q",), "hidden", {"text": "green tea", "kind": "note"}, index=False)
    found = store.search(("q",), query="green tea", limit=2, filter={"kind": "note"})
    assert [item.key for item in found][0] == "tea" and len(found) == 2
    assert found[0].score >= found[1].score
    assert store.search(("q",), query="metric units", limit=1)[0].key == "units"
    assert store.search(("q",), query="green tea", limit=1, offset=1)[0].key != "tea"
    everything = store.search(("q",), query="green tea", limit=10)
    assert {item.key for item in everything} == set(texts) and store.get(("q",), "hidden")


def ttl_ends_items():
    ttl: TTLConfig = {"default_ttl": 10, "refresh_on_read": False}
    store, client = HearthStore(root="ttl", ttl=ttl), Client()

    def expiry(key):
        return client.get_by_external_id(key, namespace="ttl/t")["expires_at"]

    store.put(("t",), "default", {})
    store.put(("t",), "own", {}, ttl=0.5)
    store.put(("t",), "never", {}, ttl=None)
    before = {key: expiry(key) for key in ("default", "own", "never")}
    assert before["own"] < before["default"] and before["never"] is None
    store.get(("t",), "own")
    assert expiry("own") == before["own"]
    store.get(("t",), "own", refresh_ttl=True)
    refreshed = expiry("own")
    assert refreshed > before["own"]
    store.search(("t",), refresh_ttl=True)
    assert expiry("own") > refreshed and expiry("default") > before["default"] and expiry("never") is None
    store.put(("t",), "own", {}, ttl=None)
    assert expiry("own") is None


def errors_are_readable():
    store = HearthStore(root="errors")
    for kind, words, call in [
        (InvalidNamespaceError, "longer than 128 bytes", lambda: store.put(("x" * 130,), "k", {})),
        (InvalidNamespaceError, "periods", lambda: store.put(("a.b",), "k", {})),
        (ValueError, "longer than 256 bytes", lambda: store.put(("a",), "k" * 300, {})),
        (ValueError, "at most 65536", lambda: store.put(("a",), "k", {"text": "x" * 70_000})),
        (ValueError, "unknown operator: $in", lambda: store.search(("q",), filter={"n": {"$in": [1]}})),
        (TypeError, "not JSON serializable", lambda: store.put(("a",), "k", {"set": {1}})),
    ]:
        store.put(("q",), "k", {"n": 1})
        try:
            call()
        except kind as error:
            assert words in str(error), error
        else:
            raise AssertionError(words)
    assert store.list_namespaces() == [("q",)]


async def batches_are_asynchronous_too():
    store = HearthStore(root="async")
    await asyncio.gather(*(store.aput(("a",), f"k{number}", {"n": number}) for number in range(20)))
    assert {item.value["n"] for item in await store.asearch(("a",), limit=100)} == set(range(20))
    # The synchronous interface reads what the asynchronous one wrote.
    assert len(await asyncio.to_thread(store.search, ("a",), limit=100)) == 20
    assert await store.alist_namespaces() == [("a",)]
