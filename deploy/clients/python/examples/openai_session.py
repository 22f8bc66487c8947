"""A conversation of the OpenAI Agents SDK that survives its process. `Echo` stands for a model."""

import asyncio
from uuid import uuid4

from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

from hearth_memory.openai_agents import HearthSession


class Echo(Model):
    async def get_response(self, system_instructions, input, *args, **kwargs):
        text = ResponseOutputText(type="output_text", text=f"I know {len(input)} items.", annotations=[])
        message = ResponseOutputMessage(
            id=str(uuid4()), type="message", role="assistant", status="completed", content=[text]
        )
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    async def stream_response(self, *args, **kwargs):
        raise NotImplementedError


async def main():
    session = HearthSession("example-anna")
    await session.clear_session()
    for message in ["I prefer metric units.", "Which units do I prefer?"]:
        result = await Runner.run(
            Agent(name="assistant", model=Echo()), message, session=session,
            run_config=RunConfig(tracing_disabled=True),
        )
        print(message, "->", result.final_output)
    print("stored:", len(await session.get_items()))


asyncio.run(main())
