"""The memory block of LlamaIndex."""

import asyncio
import functools

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import Memory

from hearth_memory import Client
from hearth_memory.llama_index import HearthMemoryBlock

# The framework removes nothing from a block.
DISTRIBUTION, EXAMPLE, REMOVES = "llama-index-core", "llama_index_block.py", False


@functools.cache
def block():
    return HearthMemoryBlock()


def namespace(worker):
    return f"llama-index/load-{worker}"


async def work(worker, number):
    text, session = message(f"number {number}"), f"load-{worker}"
    await block().aput([text], from_short_term_memory=True, session_id=session)
    assert await block().aget([text], session_id=session)


def check(cluster):
    asyncio.run(old_messages_go_to_the_block())
    asyncio.run(equal_messages_stay_separate())
    asyncio.run(sessions_are_apart())
    interface_without_asyncio_works()


def message(text, role="user"):
    return ChatMessage(role=role, content=text)


def stored(session):
    with Client() as client:
        return [memory["label"] for memory in client.list(namespace=session, consistency="linearizable")]


def small_memory(session, block):
    return Memory.from_defaults(session_id=session, token_limit=40, token_flush_size=10, chat_history_token_ratio=0.5,
                                tokenizer_fn=str.split, memory_blocks=[block])


async def old_messages_go_to_the_block():
    memory = small_memory("flush", HearthMemoryBlock())
    await memory.aput_messages([message("The port of staging is 5432."), message("Noted.", "assistant")])
    for number in range(4):
        await memory.aput_messages([message(f"turn {number} " + "word " * 10), message(f"done {number}", "assistant")])
    recent = [one.content for one in await memory.aget_all()]
    kept = stored("llama-index/flush")
    assert "The port of staging is 5432." in kept and len(kept) + len(await memory.aget()) - 1 >= len(recent)
    context = (await memory.aget(input="which port has staging?"))[0]
    assert context.role == "system" and "user: The port of staging is 5432." in context.content


async def equal_messages_stay_separate():
    block = HearthMemoryBlock()
    await block.aput([message("yes"), message("yes"), message("", "assistant"), message("  ")], session_id="equal")
    await block.aput([message("yes")], session_id="equal")
    assert stored("llama-index/equal") == ["yes"] * 3
    await block.aput([message(f"many {number}") for number in range(70)], session_id="many")
    assert stored("llama-index/many") == [f"many {number}" for number in range(70)]
    try:
        await block.aput([message("x" * 70_000)], session_id="equal")
    except ValueError as error:
        assert "at most 65536" in str(error)


async def sessions_are_apart():
    block, every = HearthMemoryBlock(), HearthMemoryBlock(name="every", all_sessions=True)
    await block.aput([message("the zebra is called Ann")], session_id="one")
    query = [message("how is the zebra called?")]
    assert "Ann" in await block.aget(query, session_id="one")
    assert await block.aget(query, session_id="two") == ""
    assert "Ann" in await every.aget(query, session_id="two")
    assert await block.aget([], session_id="one") == await block.aget(None) == ""
    # The end of a long query counts.
    assert "Ann" in await block.aget([message("é " * 40_000 + "zebra")], session_id="one")


def interface_without_asyncio_works():
    """Each call has an event loop of its own."""
    memory = small_memory("sync", HearthMemoryBlock())
    for number in range(8):
        memory.put(message(f"message {number} " + "word " * 6))
        memory.put(message(f"answer {number}", "assistant"))
    assert stored("llama-index/sync")[0].startswith("message 0")
    assert memory.get(input="message 0")
