"""A memory service of the Agent Development Kit: a session is added to it, and another session finds it."""

import asyncio

from google.adk.events.event import Event
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.genai.types import Content, Part

from hearth_memory.google_adk import HearthMemoryService


async def main():
    memory, sessions = HearthMemoryService(), InMemorySessionService()
    session = await sessions.create_session(app_name="example", user_id="anna", session_id="first")
    for author, text in [("user", "I prefer metric units."), ("assistant", "Noted: metric units.")]:
        content = Content(role="user" if author == "user" else "model", parts=[Part(text=text)])
        await sessions.append_event(session, Event(author=author, content=content, invocation_id="one"))
    await memory.add_session_to_memory(session)
    found = await memory.search_memory(app_name="example", user_id="anna", query="which units?")
    for entry in found.memories:
        print(f"{entry.author}: {entry.content.parts[0].text}")


asyncio.run(main())
