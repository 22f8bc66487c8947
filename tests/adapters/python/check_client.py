"""The client: its policy of repetition without a network, and its operations on three nodes."""

import asyncio
import functools
import inspect
import os
import signal
import time
from pathlib import Path
from unittest import mock

import httpx

from hearth_memory import (
    AsyncClient,
    Client,
    Cluster,
    ConditionFailed,
    Conflict,
    HearthError,
    NotFound,
    OutcomeUnknown,
    Unauthorized,
    Unavailable,
    exchange,
    find_cluster,
    operations,
)

DISTRIBUTION, EXAMPLE, REMOVES = "httpx", "client.py", True


@functools.cache
def client():
    return AsyncClient()


def namespace(worker):
    return f"load/{worker}"


async def work(worker, number):
    memory = await client().create(label=f"number {number}", namespace=namespace(worker))
    assert [one async for one in client().list(namespace=namespace(worker), search=f"number {number}")]
    if number % 4 == 0:
        await client().delete(memory["id"])


def check(cluster):
    for test in [
        write_is_repeated_with_one_key,
        final_errors_are_not_repeated,
        unknown_outcome_is_an_error_of_its_own,
        attempts_end_at_the_deadline,
        pause_respects_retry_after,
        program_may_catch_an_error,
        profile_is_found,
    ]:
        test()
    with Client() as client:
        operations_return_what_they_state(client)
        conditions_and_errors(client)
        reads_include_own_writes(client)
        both_clients_have_the_same_operations()
    asyncio.run(several_loops_may_use_one_client(client := AsyncClient()))
    asyncio.run(several_loops_may_use_one_client(client))
    paused_node_is_left(cluster)


def attempts(request, outcomes, cluster):
    """The steps of a request of which each attempt has the next outcome, and the response or the error."""
    steps, requests, pauses = exchange.exchange(request, cluster), [], []
    step = next(steps)
    try:
        while True:
            if isinstance(step, httpx.Request):
                requests.append(step)
                step = steps.send(outcomes[len(requests) - 1])
            else:
                pauses.append(step)
                step = steps.send(None)
    except StopIteration as end:
        return requests, pauses, end.value
    except HearthError as error:
        return requests, pauses, error


def response(status, code="", **headers):
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.Response(status, json={"error": code, "message": "…", "request_id": "r"}, headers=headers)


def three_nodes(**fields):
    return Cluster(["https://a", "https://b", "https://c"], "key", **fields)


def write_is_repeated_with_one_key():
    cluster = three_nodes(index=7)
    outcomes = [httpx.ConnectError("refused"), response(503, "no_leader"), response(504, "outcome_unknown"),
                response(502), httpx.ReadTimeout("no byte"), response(201, X_Hearth_Index="9")]
    requests, pauses, result = attempts(exchange.write("POST", "/x", {"a": 1}), outcomes, cluster)
    assert result.status_code == 201
    assert [str(request.url.host) for request in requests] == ["a", "b", "c", "a", "b", "c"]
    assert len({request.headers["Idempotency-Key"] for request in requests}) == 1
    assert len(pauses) == 5
    assert (cluster.node, cluster.index) == (2, 9)
    requests, _, _ = attempts(exchange.read("GET", "/x"), [response(200)], cluster)
    assert requests[0].url.host == "c" and requests[0].headers["X-Hearth-Min-Index"] == "9"


def final_errors_are_not_repeated():
    for status, kind in [(400, HearthError), (401, Unauthorized), (404, NotFound), (409, Conflict),
                         (412, ConditionFailed), (429, Unavailable), (500, HearthError)]:
        cluster = three_nodes()
        requests, _, error = attempts(exchange.write("POST", "/x"), [response(status, "code")], cluster)
        assert type(error) is kind and len(requests) == 1 and cluster.node == 0, status
        assert str(error) == f"{status} code: …"


def unknown_outcome_is_an_error_of_its_own():
    gateway = httpx.Response(502, text="<html>")
    for request, outcome, kind in [
        (exchange.write("POST", "/x"), httpx.ReadTimeout(""), OutcomeUnknown),
        (exchange.write("POST", "/x"), gateway, OutcomeUnknown),
        (exchange.write("POST", "/x"), httpx.ConnectError(""), Unavailable),
        (exchange.write("POST", "/x"), response(503, "busy"), Unavailable),
        (exchange.read("GET", "/x"), httpx.ReadTimeout(""), Unavailable),
    ]:
        _, _, error = attempts(request, [outcome], three_nodes(timeout=0))
        assert type(error) is kind, (request, outcome)


def attempts_end_at_the_deadline():
    steps = exchange.exchange(exchange.read("GET", "/x"), three_nodes(timeout=0.3))
    began, step = time.monotonic(), next(steps)
    try:
        while True:
            if isinstance(step, float):
                time.sleep(step)
                step = steps.send(None)
            else:
                assert step.extensions["timeout"]["read"] <= 0.15
                step = steps.send(httpx.ConnectError("refused"))
    except Unavailable:
        assert time.monotonic() - began < 0.3


def pause_respects_retry_after():
    outcomes = [response(429, "rate_limited", Retry_After="2"), response(200)]
    _, pauses, _ = attempts(exchange.read("GET", "/x"), outcomes, three_nodes())
    assert 2 <= pauses[0] < 3
    outcomes = [response(429, "too_many_failures", Retry_After="60")]
    _, pauses, error = attempts(exchange.read("GET", "/x"), outcomes, three_nodes())
    assert not pauses and error.retry_after == 60


def program_may_catch_an_error():
    def program():
        try:
            yield exchange.read("GET", "/first")
        except NotFound as error:
            return error.code, (yield exchange.read("GET", "/second")).status_code

    steps = exchange.perform(program(), three_nodes())
    next(steps)
    assert steps.send(response(404, "not_found")).url.path == "/api/v1/second"
    try:
        steps.send(response(200))
    except StopIteration as end:
        assert end.value == ("not_found", 200)


def profile_is_found():
    path = Path(os.environ["HEARTH_PROFILES"])
    ca = Path(os.environ["HEARTH_CA"]).read_text()
    fields = f'urls = ["https://a:1"]\nkey = "k"\nnamespace = "n"\nca = """{ca}"""\n'
    path.write_text(f'current = "a"\n[profiles.a]\n{fields}')
    with mock.patch.dict(os.environ):
        for name in ("HEARTH_URL", "HEARTH_API_KEY", "HEARTH_CA"):
            del os.environ[name]
        found = find_cluster()
        assert (list(found.urls), found.key, found.namespace) == (["https://a:1"], "k", "n") and found.tls()
        named = {"profile": "a", "urls": "https://b"}
        for arguments in [{"profile": "b"}, named, {"urls": "https://a:1"}, {"urls": "a"}]:
            try:
                find_cluster(**arguments)
                raise AssertionError(arguments)
            except ValueError:
                pass
    path.unlink()
    found = find_cluster("https://a/, https://b", "k")
    assert found.urls == ["https://a", "https://b"] and found.key == "k"


def operations_return_what_they_state(client):
    first = client.create(label="the port is 5432", namespace="o", external_id="port", tags=["db"], tool="test")
    again = client.create(label="the port is 5433", namespace="o", external_id="port")
    assert again["id"] == first["id"] and first["origin"]["tool"] == "test"
    assert client.get_by_external_id("port", namespace="o")["label"] == "the port is 5433"
    assert [one["label"] for one in client.versions(first["id"])] == ["the port is 5433", "the port is 5432"]
    assert client.update(first["id"], is_pinned=True)["is_pinned"]
    assert client.hot_context(namespace="o")[0]["id"] == first["id"]
    assert client.search(query="which port?", namespace="o", explain=True)[0]["explain"]
    assert "5433" in client.context(query="which port?", namespace="o")["context"]
    assert client.feedback(first["id"], signal="irrelevant")["ok"]
    assert client.boost(first["id"], strength=0.1)["id"] == first["id"]
    newer = client.create(label="the port is 9090", namespace="o")
    assert client.supersede(first["id"], by=newer["id"])["superseded_by"] == newer["id"]
    client.run(operations.create_all({"label": f"memory {number}", "namespace": "many"} for number in range(120)))
    labels = [memory["label"] for memory in client.list(namespace="many")]
    assert labels == [f"memory {number}" for number in range(120)]
    assert client.storage()["namespaces"]["many"] == 120
    assert len(list(client.list(namespace_prefix="many", filter={"created_at": {"gt": "2020-01-01"}}))) == 120
    client.run(operations.delete_all(memory["id"] for memory in client.list(namespace="many")))
    assert not list(client.list(namespace="many"))
    key = "one-and-the-same"
    ids = {client.create(label="x", namespace="o", idempotency_key=key)["id"] for _ in range(3)}
    assert len(ids) == 1 and client.identity()["authenticated"]
    assert client.delete(ids.pop())["deleted"]
    assert len(client.create_batch(nodes=[{"label": "a"}, {"label": "a"}])) == 2


def conditions_and_errors(client):
    memory = client.create(label="x", namespace="conditions")
    etag = client.get(memory["id"])["etag"]
    changed = client.update(memory["id"], etag=etag, label="y")
    for attempt in (lambda: client.update(memory["id"], etag=etag, label="z"),
                    lambda: client.delete(memory["id"], etag=etag)):
        assert isinstance(raised(attempt), ConditionFailed)
    named = dict(external_id="notes/plan.md", namespace="named")
    first = client.create(**named, label="first plan", is_new=True)
    for attempt in (lambda: client.create(**named, label="lost", is_new=True),
                    lambda: client.create(**named, label="lost", etag=etag)):
        assert isinstance(raised(attempt), ConditionFailed)
    client.create(**named, label="second plan", etag=first["etag"])
    client.delete(memory["id"], etag=changed["etag"], reject=True)
    assert isinstance(raised(lambda: client.get(memory["id"])), NotFound)
    assert isinstance(raised(lambda: client.get_by_external_id("?", namespace="conditions")), NotFound)
    error = raised(lambda: client.create(label="x", memory_type="opinion"))
    assert (error.status, error.code) == (400, "invalid_field") and "memory_type must be one of" in str(error)
    assert error.request_id
    assert isinstance(raised(lambda: Client(key="sk-hearth-0").identity()), Unauthorized)
    # Nothing listens there.
    assert isinstance(raised(lambda: Client("https://127.0.0.1:9", "k", timeout=0.2).identity()), Unavailable)


def raised(call):
    try:
        call()
    except HearthError as error:
        return error
    raise AssertionError("no error")


def reads_include_own_writes(client):
    """A list does not wait for other nodes by itself: each read here is at another node than the write before it."""
    for number in range(60):
        client.create(label=f"number {number}", namespace="own")
        client.cluster.leave(client.cluster.node)
        assert len(list(client.list(namespace="own"))) == number + 1
        client.cluster.leave(client.cluster.node)


def both_clients_have_the_same_operations():
    shared = {name for name, _ in inspect.getmembers(Client, inspect.isfunction) if not name.startswith("_")}
    assert shared == {name for name, _ in inspect.getmembers(AsyncClient, inspect.isfunction) if name[0] != "_"}
    assert str(inspect.signature(Client.get).parameters["id"]) == "id: 'str'"


async def several_loops_may_use_one_client(client):
    memories = await asyncio.gather(*(client.create(label=f"{n}", namespace="loops") for n in range(10)))
    assert len({memory["id"] for memory in memories}) == 10


def paused_node_is_left(cluster):
    """A node that accepts connections and never responds gets half of the time. The write is done once."""
    follower = next(node for node in cluster.nodes if node["id"] != cluster.leader)
    others = [node["url"] for node in cluster.nodes if node is not follower]
    os.kill(follower["pid"], signal.SIGSTOP)
    try:
        with Client([follower["url"], *others], timeout=8) as client:
            client.create(label="once", namespace="paused")
            assert client.cluster.node == 1
    finally:
        os.kill(follower["pid"], signal.SIGCONT)
    with Client() as client:
        assert len(list(client.list(namespace="paused", consistency="linearizable"))) == 1
