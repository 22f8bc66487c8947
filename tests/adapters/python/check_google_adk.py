"""The memory service of the Agent Development Kit."""

import asyncio
import functools

from google.adk.events.event import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from google.genai.types import Blob, Content, FunctionCall, Part

from hearth_memory import Client
from hearth_memory.google_adk import HearthMemoryService

DISTRIBUTION, EXAMPLE, REMOVES = "google-adk", "adk_memory_service.py", True


@functools.cache
def service():
    return HearthMemoryService()


def namespace(worker):
    return f"google-adk/load/{worker}"


async def work(worker, number):
    user = {"app_name": "load", "user_id": str(worker)}
    event = text_event(f"number {number}")
    # A framework may add an event again.
    for _ in range(2):
        await service().add_events_to_memory(**user, events=[event], session_id="s")
    found = await service().search_memory(**user, query=f"number {number}")
    assert found.memories
    if number % 4 == 0:
        await service().delete_memory(**user, memory_id=f"s/{event.id}")


def check(cluster):
    asyncio.run(session_may_be_added_again())
    asyncio.run(contents_come_back_exactly())
    asyncio.run(users_are_apart())


def text_event(text, author="user"):
    return event(Content(role="user", parts=[Part(text=text)]), author)


def event(content, author="user"):
    return Event(author=author, invocation_id="i", content=content)


def stored(space):
    with Client() as client:
        return [memory["label"] for memory in client.list(namespace=space, consistency="linearizable")]


async def session_may_be_added_again():
    service = HearthMemoryService()
    session = Session(id="s", app_name="again", user_id="anna")
    session.events = [text_event("yes"), text_event("which port?"), text_event("yes"), text_event("yes", "agent"),
                      event(None), event(Content(role="model", parts=[Part(function_call=FunctionCall(name="f"))]))]
    for _ in range(2):
        await service.add_session_to_memory(session)
    assert sorted(stored("google-adk/again/anna")) == ["which port?", "yes", "yes", "yes"]
    session.events += [text_event(f"more {number}") for number in range(60)]
    await service.add_session_to_memory(session)
    assert len(stored("google-adk/again/anna")) == 64
    # The same text in another session is another memory.
    await service.add_session_to_memory(session.model_copy(update={"id": "t"}))
    assert len(stored("google-adk/again/anna")) == 128


async def contents_come_back_exactly():
    service, user = HearthMemoryService(), {"app_name": "exact", "user_id": "e\u0301/ 1"}
    image, call = Blob(data=b"\0\xff", mime_type="image/png"), FunctionCall(name="f", args={"a": 1.0})
    contents = [
        Content(role="model", parts=[Part(text="zebra one"), Part(text="e\u0301 \u00e9")]),
        Content(role="user", parts=[Part(text="zebra two"), Part(inline_data=image)]),
        Content(role="model", parts=[Part(text="zebra three"), Part(function_call=call)]),
        Content(parts=[Part(text="zebra " + "x " * 30_000)]),
    ]
    events = [event(content, f"author {number}") for number, content in enumerate(contents)]
    await service.add_events_to_memory(**user, events=events, custom_metadata={"kind": "e\u0301"})
    found = (await service.search_memory(**user, query="zebra")).memories
    assert len(found) == 4
    for number, content in enumerate(contents):
        entry = next(entry for entry in found if entry.author == f"author {number}")
        assert entry.content == content and entry.custom_metadata == {"kind": "e\u0301"}
        assert entry.timestamp and entry.id.endswith(events[number].id)
    try:
        await service.add_events_to_memory(**user, events=[text_event("x" * 70_000)])
    except ValueError as error:
        assert "at most 65536" in str(error)
    image.data = b"x" * 20_000
    try:
        await service.add_events_to_memory(**user, events=[event(contents[1])])
    except ValueError as error:
        assert "beside its text has" in str(error)
    assert not (await service.search_memory(**user, query=" ")).memories


async def users_are_apart():
    service = HearthMemoryService()
    anna, ben = ({"app_name": "apart", "user_id": user} for user in ("anna", "ben"))
    entry = MemoryEntry(content=Content(parts=[Part(text="the port is 5432")]), custom_metadata={"a": 1})
    await service.add_memory(**anna, memories=[entry, entry], custom_metadata={"b": 2})
    await service.add_memory(**ben, memories=[entry.model_copy(update={"id": "mine"})] * 2)
    assert len(stored("google-adk/apart/anna")) == 2 and len(stored("google-adk/apart/ben")) == 1
    found = (await service.search_memory(**anna, query="which port?")).memories
    assert [one.custom_metadata for one in found] == [{"a": 1, "b": 2}] * 2
    await service.delete_memory(**ben, memory_id=found[0].id)
    await service.delete_memory(**ben, memory_id=None)
    assert len(stored("google-adk/apart/anna")) == 2
    await service.delete_memory(**anna, memory_id=found[0].id)
    await service.delete_memory(**anna, memory_id=found[0].id)
    assert len(stored("google-adk/apart/anna")) == 1
