"""A memory of LlamaIndex whose old messages go to Hearth. The small limits make the first message leave it at once."""

import asyncio

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import Memory

from hearth_memory.llama_index import HearthMemoryBlock


async def main():
    memory = Memory.from_defaults(
        session_id="example-anna",
        token_limit=40,
        token_flush_size=10,
        chat_history_token_ratio=0.5,
        # The default counts with a model's tokenizer, which it would download.
        tokenizer_fn=str.split,
        memory_blocks=[HearthMemoryBlock()],
    )
    for text in ["I prefer metric units.", "My train leaves at nine tomorrow morning from Hamburg.", "Which units?"]:
        await memory.aput(ChatMessage(role="user", content=text))
        await memory.aput(ChatMessage(role="assistant", content=f"You said {text}"))
    for message in await memory.aget(input="which units do I prefer?"):
        print(f"{message.role.value}: {message.content}")


asyncio.run(main())
