"""The published Python client and its LangChain integration, unmodified, against a
cluster. The values that they return are compared with the writes.

    published.py CLUSTER.json spread|one

CLUSTER.json is the output of `hearth dev --json`. With `spread` each call goes to the next
node, once that node has applied all writes. With `one` all calls go to one node, without
waiting. SSL_CERT_FILE names the cluster's authority.
"""

import asyncio
import inspect
import json
import sys
import time
import urllib.request

from langchain_core.messages import AIMessage, HumanMessage
from sulcus import AsyncSulcus, Sulcus, SulcusError
from sulcus_langchain import SulcusChatMessageHistory, SulcusMemory, SulcusRetriever

PATIENCE_SECONDS = 20


class Spread:
    """A client whose calls go to the nodes in turn."""

    def __init__(self, make, urls, key, namespace):
        self.clients = [make(api_key=key, base_url=url, namespace=namespace) for url in urls]
        self.urls, self.turn, self.namespace = urls, 0, namespace

    def __getattr__(self, name):
        client, url = self.clients[self.turn % len(self.clients)], self.urls[self.turn % len(self.urls)]
        self.turn += 1
        if len(self.urls) > 1:
            caught_up(url, max(applied(other) for other in self.urls))
        return getattr(client, name)


def applied(url):
    with urllib.request.urlopen(f"{url}/api/v1/status", timeout=10) as answer:
        return json.load(answer)["applied_index"]


def caught_up(url, index):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while applied(url) < index:
        assert time.monotonic() < deadline, f"{url} does not reach {index}"
        time.sleep(0.005)


async def run(value):
    """Awaits the result of the asynchronous client; the synchronous one returns a value."""
    return await value if inspect.isawaitable(value) else value


async def fails(status, call):
    try:
        await run(call())
    except SulcusError as error:
        assert error.status == status, error
    except Exception as error:  # httpx's own, with the status
        assert error.response.status_code == status, error
    else:
        raise AssertionError(f"no error {status}")


async def memories(client):
    stored = await run(client.remember("The user prefers metric units.", memory_type="preference"))
    assert stored.id and stored.pointer_summary == "The user prefers metric units."
    assert (stored.memory_type, stored.namespace, stored.is_pinned) == ("preference", client.namespace, False)
    assert abs(stored.current_heat - 0.8) < 1e-6
    kept = await run(client.remember("Deploys happen on Tuesdays.", heat=0.5, decay_class="slow", is_pinned=True, min_heat=0.1, key_points=["release", "calendar"], train_on_this=True))
    assert kept.is_pinned and kept.memory_type == "episodic"
    got = await run(client.get(stored.id))
    assert (got.id, got.pointer_summary) == (stored.id, stored.pointer_summary)
    found = await run(client.search("which units should I use?", limit=5))
    assert {memory.id for memory in found} == {stored.id, kept.id}
    typed = await run(client.search("units", memory_type="preference", namespace=client.namespace))
    assert [memory.id for memory in typed] == [stored.id]
    listed = await run(client.list())
    assert [memory.id for memory in listed] == [stored.id, kept.id], "the hottest first"
    assert [memory.id for memory in await run(client.list(page=2, page_size=1))] == [kept.id]
    filters = dict(memory_type="episodic", namespace=client.namespace, pinned=True, search="deploys", sort="updated_at", order="asc")
    accepted = set(inspect.signature(type(client.clients[0]).list).parameters) - {"self", "page", "page_size"}
    assert accepted <= set(filters), f"an untested option: {accepted - set(filters)}"
    for option in accepted:
        listed = await run(client.list(**{option: filters[option]}))
        both = option in ("namespace", "sort", "order")
        assert {memory.id for memory in listed} == ({stored.id, kept.id} if both else {kept.id}), option
    assert [memory.id for memory in await run(client.list(**{name: filters[name] for name in accepted}))] == [kept.id]
    changed = await run(client.update(stored.id, label="The user prefers imperial units.", heat=0.3))
    assert changed.pointer_summary == "The user prefers imperial units." and abs(changed.current_heat - 0.3) < 1e-6
    assert (await run(client.pin(stored.id))).is_pinned
    assert not (await run(client.unpin(stored.id))).is_pinned
    hot = await run(client.hot_nodes(limit=1))
    assert [memory.id for memory in hot] == [kept.id]
    both = await run(client.bulk_update([stored.id, kept.id], memory_type="fact", heat=0.9))
    assert both["updated"] == 2 and both["errors"] == []
    assert all(memory.memory_type == "fact" for memory in await run(client.list()))
    feedback = await run(client.feedback(stored.id, "relevant"))
    assert feedback["ok"] and feedback["heat_after"] > feedback["heat_before"]
    assert feedback["stability_after"] >= feedback["stability_before"]
    for signal in ["irrelevant", "outdated"]:
        feedback = await run(client.feedback(stored.id, signal))
        assert (feedback["node_id"], feedback["signal"]) == (stored.id, signal)
        assert feedback["heat_after"] < feedback["heat_before"], signal
    await fails(400, lambda: client.feedback(stored.id, "nonsense"))
    assert await run(client.forget(stored.id))
    await fails(404, lambda: client.get(stored.id))
    assert await run(client.bulk_delete(ids=[kept.id])) == 1
    for kind in ["fact", "semantic"]:
        await run(client.remember(f"Something {kind}.", memory_type=kind))
    assert await run(client.bulk_delete(memory_type="fact", namespace=client.namespace)) == 1
    assert await run(client.bulk_delete(namespace=client.namespace)) == 1
    assert await run(client.list(namespace=client.namespace)) == []
    await fails(400, lambda: client.bulk_delete())


async def counts(client):
    usage, recalls = await run(client.usage()), await run(client.recall_analytics())
    assert usage["billing_period_start"] < usage["billing_period_end"]
    relevant = {of["memory_type"]: of["relevant_count"] for of in recalls["stats"]}["fact"]
    return [usage["sync_requests"], usage["nodes_added"], recalls["searches"], relevant]


async def counted(client, before, requests, *gains):
    """Requests, writes, searches and feedback are counted. Waits, because nodes report with a delay.
    Only requests may exceed the expected number."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        gained = [now - then for now, then in zip(await counts(client), before)]
        if gained[0] >= requests and tuple(gained[1:]) == gains:
            return
        assert time.monotonic() < deadline, (gained, requests, gains)
        await asyncio.sleep(0.1)


async def administration(client, key):
    shown = await run(client.get_thermo())
    assert shown["config"]["recall"]["similarity_weight"] == 0.7 and not shown["custom"]
    changed = await run(client.update_thermo({"recall": {"heat_weight": 0.4}}))
    assert changed["ok"] and changed["config"]["recall"]["heat_weight"] == 0.4
    assert (await run(client.get_thermo_config()))["custom"]
    await run(client.set_thermo_config({"recall": {"heat_weight": None}}))
    one = await run(client.remember("alpha of the graph", key_points=["greek"]))
    two = await run(client.remember("beta of the graph", key_points=["greek"]))
    graph = await run(client.graph())
    assert graph["total_nodes"] == 2 and len(graph["links"]) == 1
    assert {graph["links"][0]["source"], graph["links"][0]["target"]} == {one.id, two.id}
    assert (await run(client.graph_status()))["total_edges"] == 1
    assert (await run(client.graph_verify(one.id)))["verified"]
    neighbours = (await run(client.graph_neighbors(one.id)))["neighbors"]
    assert [neighbour["id"] for neighbour in neighbours] == [two.id]
    dashboard = await run(client.dashboard())
    assert dashboard["total_nodes"] == 2 and dashboard["edge_count"] == 1
    assert dashboard["type_distribution"][0] == {"type": "episodic", "count": 2}
    assert {event["action"] for event in dashboard["recent_activity"]} >= {"memory.add", "edge.add"}
    assert (await run(client.memory_status()))["stats"]["total_memories"] == 2
    assert (await run(client.storage_status()))["total_nodes"] == 2
    assert (await run(client.metrics()))["memories"] == 2
    verified, org = await run(client.verify()), await run(client.whoami())
    assert verified["authenticated"] and verified["role"] == "admin" and verified["tenant_id"] == org["tenant_id"]
    assert (await run(client.status()))["status"] == "ok"
    renamed = await run(client.update_org(org_name=f"{client.namespace} and company"))
    assert renamed["org_name"] == (await run(client.whoami()))["org_name"] == f"{client.namespace} and company"
    await run(client.update_org(org_name=org["org_name"]))
    made = await run(client.create_key("helper"))
    keys = {entry["id"]: entry for entry in await run(client.list_keys())}
    assert made["key"].startswith("sk-") and keys[made["id"]]["name"] == "helper" and "key" not in keys[made["id"]]
    helper = Sulcus(api_key=made["key"], base_url=client.urls[0])
    await run(client.set_default_namespace(client.namespace))
    rule = await run(client.upsert_acl("helper", "closed", "deny"))
    rules = await run(client.list_acl())
    assert [(entry["id"], entry["agent_id"], entry["namespace"], entry["policy"]) for entry in rules] == [(rule["id"], "helper", "closed", "deny")]
    caught_up(client.urls[0], max(applied(other) for other in client.urls))
    await fails(403, lambda: helper.list(namespace="closed"))
    assert await run(client.delete_acl(rule["id"]))
    assert await run(client.list_acl()) == []
    assert await run(client.revoke_key(made["id"]))
    await run(client.record_activity("export", target_label="all", metadata={"count": 2}))
    activity = await run(client.activity(limit=1))
    assert activity["items"][0]["action"] == "export" and activity["items"][0]["target_label"] == "all"
    assert activity["items"][0]["metadata"] == {"count": 2}
    older = await run(client.activity(limit=1, cursor=activity["next_cursor"]))
    assert older["items"][0]["created_at"] <= activity["items"][0]["created_at"]
    assert older["items"][0]["id"] != activity["items"][0]["id"]
    await run(client.bulk_delete(namespace=client.namespace))


async def triggers(client):
    namespace = client.namespace
    units = await run(client.create_trigger("on_store", "notify", name="Units", description="of units", action_config={"message": "{label} is {memory_type}"}, filter_memory_type="fact", filter_namespace=namespace, filter_label_pattern="METRIC", filter_heat_below=0.95, filter_heat_above=0.1, max_fires=2, cooldown_seconds=0))
    assert units["trigger_id"] == units["id"] and (units["name"], units["enabled"], units["fire_count"]) == ("Units", True, 0)
    boost = await run(client.create_trigger("on_boost", "boost", action_config={"strength": 0.2, "target": "self"}, filter_namespace=namespace))
    hook = await run(client.create_trigger("on_store", "webhook", action_config={"url": "https://hooks.example/1", "method": "POST", "webhook_secret": "a secret of ours"}, filter_label_pattern="nothing like it"))
    assert hook["action_config"]["signed"] and "secret" not in json.dumps(hook["action_config"]).replace("old_secret", "")
    listed = {trigger["id"]: trigger for trigger in await run(client.list_triggers())}
    assert listed[units["id"]] == {key: value for key, value in units.items()} and set(listed) == {units["id"], boost["id"], hook["id"]}
    wanted = {"event": "on_store", "action": "notify", "action_config": {"message": "{label} is {memory_type}"}, "filter_memory_type": "fact", "filter_namespace": namespace, "filter_label_pattern": "METRIC", "filter_heat_below": 0.95, "filter_heat_above": 0.1, "max_fires": 2, "cooldown_seconds": 0, "description": "of units"}
    assert {key: listed[units["id"]][key] for key in wanted} == wanted
    fact = await run(client.remember("Metric units.", memory_type="fact", heat=0.5))
    await run(client.remember("Metric units too.", heat=0.5))
    updated = await run(client.update(fact.id, heat=0.6))
    assert abs(updated.current_heat - 0.8) < 1e-6, updated.current_heat
    history = await run(client.trigger_history(limit=50))
    mine = [(entry["trigger_id"], entry["event"], entry["action"], entry["node_id"], entry["result"]) for entry in history if entry["trigger_id"] in listed]
    assert mine[::-1] == [(units["id"], "on_store", "notify", fact.id, "Metric units. is fact"), (boost["id"], "on_boost", "boost", fact.id, "heat 0.6 to 0.8")], mine
    assert history[0]["fired_at"] and history[0]["trigger_name"] == "on_boost boost"
    assert len(await run(client.trigger_history(limit=1))) == 1
    changed = await run(client.update_trigger(units["id"], enabled=False, name="Rests", action_config={"message": "rests"}, max_fires=5, cooldown_seconds=9, reset_count=True))
    assert (changed["enabled"], changed["name"], changed["fire_count"], changed["max_fires"], changed["cooldown_seconds"]) == (False, "Rests", 0, 5, 9)
    assert changed["action_config"] == {"message": "rests"} and changed["filter_label_pattern"] == "METRIC"
    for trigger in listed:
        assert await run(client.delete_trigger(trigger))
    assert await run(client.list_triggers()) == []
    await fails(404, lambda: client.delete_trigger(units["id"]))
    await fails(400, lambda: client.create_trigger("on_full_moon", "notify"))
    await run(client.bulk_delete(namespace=namespace))


def langchain(client):
    history = SulcusChatMessageHistory.model_construct(client=client, session_id="s", namespace=None, heat=0.7, max_messages=None) if hasattr(SulcusChatMessageHistory, "model_construct") else SulcusChatMessageHistory()
    if not hasattr(history, "session_id"):
        # The published class declares its fields and has no constructor for them.
        history.client, history.session_id = client, "s"
        history.namespace, history.heat, history.max_messages = None, 0.7, None
    history.add_message(HumanMessage(content="Which units do I like?"))
    history.add_message(AIMessage(content="Metric ones."))
    assert [message.content for message in history.messages] == ["Which units do I like?", "Metric ones."]
    documents = SulcusRetriever(client=client, search_limit=1).invoke("metric units")
    assert len(documents) == 1 and documents[0].metadata["memory_id"]
    memory = SulcusMemory(client=client, memory_type="facts")
    memory.save_context({"input": "I live in Berlin"}, {"output": "Noted."})
    assert "Berlin" in str(memory.load_memory_variables({"input": "Where do I live?"}))
    memory.clear()
    history.clear()
    assert history.messages == []


def scores(client):
    """Recomputes each score by the formula of the interface, from what the result explains."""
    talk = [("Which units do I like in a recipe?", []), ("Metric ones, since the scales of the kitchen show grams.", ["recipe"]), ("The moon landed in the sea.", [])]
    for text, points in talk:
        client.remember(text, key_points=points)
    results = client._post("/api/v1/agent/search", {"query": "units of a recipe today", "namespace": client.namespace, "explain": True})
    assert len(results) == len(talk) and any(result["explain"]["neighbours"] > 0 for result in results)
    for result in results:
        values = result["explain"]
        base = (1 - values["cosine_distance"]) * values["similarity_weight"] + result["heat"] * values["heat_weight"]
        words = 1 + values["keyword_weight"] * values["keyword_overlap"]
        score = base * words * (1 + values["temporal_boost"]) * (1 + values["namespace_boost"])
        assert abs(score - result["score"]) < 1e-5, (score, result)
        assert abs(values["own"] + values["neighbours"] - values["keyword_overlap"]) < 1e-9
    client.bulk_delete(namespace=client.namespace)


def main():
    cluster = json.load(open(sys.argv[1]))
    urls, key = [node["url"] for node in cluster["nodes"]], cluster["key"]
    urls = urls if sys.argv[2] == "spread" else urls[:1]

    async def both():
        for make, name in [(Sulcus, "sync"), (AsyncSulcus, "async")]:
            client = Spread(make, urls, key, f"{sys.argv[2]}-{name}")
            before = await counts(client)
            await memories(client)
            await counted(client, before, 30, 4, 2, 1)
            before = await counts(client)
            await administration(client, key)
            await counted(client, before, 30, 2, 0, 0)
            before = await counts(client)
            await triggers(client)
            await counted(client, before, 15, 2, 0, 0)

    asyncio.run(both())
    langchain(Spread(Sulcus, urls, key, f"{sys.argv[2]}-langchain"))
    scores(Sulcus(api_key=key, base_url=urls[0], namespace=f"{sys.argv[2]}-scores"))
    bad = Sulcus(api_key="sk-0000", base_url=urls[0])
    try:
        bad.list()
    except SulcusError as error:
        assert error.status == 401
    else:
        raise AssertionError("a wrong key was accepted")
    print("all checks passed")


main()
