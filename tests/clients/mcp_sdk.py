"""The client of the MCP SDK (PyPI `mcp`) against the nodes of a cluster, in every mode and version.

    mcp_sdk.py URL,URL,… KEY
        In each mode, on the next node each time: lists tools, resources and prompts, stores, searches
        and loads the context. Prints `mode VERSION` for each.
    mcp_sdk.py --session URL KEY
        One session: prints `ready`, waits for a line of standard input, and stores a memory as soon as
        the node can. Prints `stored`.
"""

import asyncio
import os
import ssl
import sys
import time

import httpx2
import mcp.client.session
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitResult, ResourceTemplateReference

LEGACY_VERSIONS = ["2025-03-26", "2025-06-18", "2025-11-25"]
MODERN_VERSION = "2026-07-28"
PATIENCE = 30
# What the server asked a person, and what the person replies.
QUESTIONS, REPLIES = [], []


def client(http, url, mode):
    transport = streamable_http_client(f"{url}/mcp", http_client=http)
    return Client(transport, mode=mode, elicitation_callback=ask)


def http_client(key):
    context = ssl.create_default_context(cafile=os.environ["SSL_CERT_FILE"])
    return httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, verify=context, timeout=PATIENCE)


async def use(memory, version):
    assert memory.protocol_version == version, (memory.protocol_version, version)
    names = {tool.name for tool in (await memory.list_tools()).tools}
    assert {"sulcus_remember", "sulcus_search", "sulcus_context"} <= names, names
    label = f"The agent spoke {version}, {time.time_ns()}"
    # The client checks each result against the output schema of its tool.
    stored = await call(memory, "sulcus_remember", {"content": label, "memory_type": "fact"})
    found = await call(memory, "sulcus_search", {"query": label, "limit": 1})
    assert found["memories"][0]["id"] == stored["memory_id"], found
    loaded = await call(memory, "sulcus_context", {"query": label})
    assert stored["memory_id"] in loaded["memory_ids"], loaded
    address = f"hearth://memories/{stored['memory_id']}"
    uris = [str(it.uri) for it in (await memory.list_resources()).resources]
    assert uris[0] == "hearth://context" and address in uris, uris
    read = await memory.read_resource(address)
    assert label in read.contents[0].text and read.contents[0].mime_type == "application/json", read
    template = ResourceTemplateReference(uri="hearth://memories/{id}")
    completed = await memory.complete(template, {"name": "id", "value": stored["memory_id"][:-2]})
    assert stored["memory_id"] in completed.completion.values, completed
    for prompt in (await memory.list_prompts()).prompts:
        assert (await memory.get_prompt(prompt.name)).messages, prompt.name
    wrong = await memory.call_tool("sulcus_update", {"memory_id": "no id"})
    assert wrong.is_error and "memory_id" in wrong.content[0].text, wrong
    if version == MODERN_VERSION:
        async with memory.listen(resource_subscriptions=[address]) as changes:
            await call(memory, "sulcus_pin", {"memory_id": stored["memory_id"]})
            change = await anext(changes)
            assert address in str(change), change
    await confirm(memory, stored["memory_id"], asks=version == MODERN_VERSION)


async def confirm(memory, memory_id, asks):
    """A person is asked before a memory is deleted, where the client can ask."""
    QUESTIONS.clear()
    if asks:
        REPLIES.append("decline")
        refused = await memory.call_tool("sulcus_forget", {"memory_id": memory_id})
        assert refused.is_error and "not_confirmed" in refused.content[0].text, refused
        REPLIES.append("accept")
    await call(memory, "sulcus_forget", {"memory_id": memory_id})
    expected = 2 if asks else 0
    assert len(QUESTIONS) == expected and all("The agent spoke" in it for it in QUESTIONS), QUESTIONS


async def ask(_, params):
    QUESTIONS.append(params.message)
    return ElicitResult(action=REPLIES.pop(), content={})


async def call(memory, tool, arguments):
    result = await memory.call_tool(tool, arguments)
    assert not result.is_error, result
    return result.structured_content


async def all_modes(urls, key):
    handshakes = [("legacy", version) for version in LEGACY_VERSIONS]
    modes = handshakes + [("auto", MODERN_VERSION), (MODERN_VERSION, MODERN_VERSION)]
    async with http_client(key) as http:
        for number, (mode, version) in enumerate(modes):
            if mode == "legacy":
                # The version that the client offers.
                mcp.client.session.LATEST_HANDSHAKE_VERSION = version
            async with client(http, urls[number % len(urls)], mode) as memory:
                await use(memory, version)
            print(mode, version, flush=True)


async def one_session(url, key):
    async with http_client(key) as http, client(http, url, "auto") as memory:
        await call(memory, "sulcus_remember", {"content": "before"})
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        started = time.monotonic()
        while True:
            result = await memory.call_tool("sulcus_remember", {"content": "after"})
            if not result.is_error:
                break
            # The node says that nothing happened.
            assert "no leader" in result.content[0].text.lower(), result
            assert time.monotonic() - started < PATIENCE, result
            await asyncio.sleep(0.1)
        print("stored", flush=True)


if sys.argv[1] == "--session":
    asyncio.run(one_session(sys.argv[2], sys.argv[3]))
else:
    asyncio.run(all_modes(sys.argv[1].split(","), sys.argv[2]))
