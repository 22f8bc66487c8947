"""The session of the OpenAI Agents SDK."""

import asyncio
import functools

from agents import Session, SessionSettings
from agents.memory.sqlite_session import SQLiteSession

from hearth_memory import AsyncClient
from hearth_memory.openai_agents import HearthSession

DISTRIBUTION, EXAMPLE, REMOVES = "openai-agents", "openai_session.py", True


@functools.cache
def client():
    return AsyncClient()


def namespace(worker):
    return f"openai-agents/load-{worker}"


async def work(worker, number):
    session = HearthSession(f"load-{worker}", client())
    item = message(f"number {number}")
    await session.add_items([item])
    assert await session.get_items(limit=1) == [item]
    if number % 4 == 0:
        assert await session.pop_item() == item


def check(cluster):
    asyncio.run(session_equals_that_of_sqlite())
    asyncio.run(order_is_that_of_the_calls())
    asyncio.run(items_come_back_exactly())


def message(text):
    return {"role": "user", "content": text}


async def session_equals_that_of_sqlite():
    ours, theirs = HearthSession("parity"), SQLiteSession("parity")
    assert isinstance(ours, Session)
    for call in [
        lambda one: one.get_items(),
        lambda one: one.pop_item(),
        lambda one: one.add_items([]),
        lambda one: one.add_items([message("yes"), message("yes")]),
        lambda one: one.add_items([message("yes"), message("no")]),
        lambda one: one.get_items(),
        lambda one: one.get_items(limit=3),
        lambda one: one.get_items(limit=0),
        lambda one: one.pop_item(),
        lambda one: one.get_items(),
        lambda one: one.add_items([message(str(number)) for number in range(130)]),
        lambda one: one.get_items(),
        lambda one: one.get_items(limit=110),
        lambda one: one.clear_session(),
        lambda one: one.get_items(),
        lambda one: one.add_items([message("again")]),
        lambda one: one.get_items(),
    ]:
        assert await call(ours) == await call(theirs)
    limited = HearthSession("parity", session_settings=SessionSettings(limit=1))
    await limited.add_items([message("last")])
    assert await limited.get_items() == [message("last")]
    assert await HearthSession("another").get_items() == []


async def order_is_that_of_the_calls():
    """Items of one call stay together, and each caller finds its own in their order."""
    session = HearthSession("order")

    async def add(caller):
        for turn in range(10):
            await session.add_items([message(f"{caller}:{turn}:{number}") for number in range(3)])

    await asyncio.gather(*map(add, range(4)))
    texts = [item["content"] for item in await session.get_items()]
    assert len(texts) == 120
    for start in range(0, 120, 3):
        caller, turn, _ = texts[start].split(":")
        assert texts[start : start + 3] == [f"{caller}:{turn}:{number}" for number in range(3)]
    for caller in range(4):
        turns = [int(text.split(":")[1]) for text in texts if text.startswith(f"{caller}:")]
        assert turns == sorted(turns)
    popped = await asyncio.gather(*(session.pop_item() for _ in range(20)))
    assert len({item["content"] for item in popped}) == 20
    assert len(await session.get_items()) == 100


async def items_come_back_exactly():
    session = HearthSession("exact / Ünal")
    items = [
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a": 1.0}', "id": None},
        {"type": "function_call_output", "call_id": "c", "output": "e\u0301 \0 \ud800 \u2028"},
        {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "x" * 60_000},
    ]
    await session.add_items(items)
    assert await session.get_items() == items
    try:
        await session.add_items([message("kept or not"), message("x" * 70_000)])
    except ValueError as error:
        assert "an item has 70" in str(error)
    assert await session.get_items() == items
