"""The same agent over the Model Context Protocol (`pip install mcp`).

    HEARTH_URL=https://127.0.0.1:4200 HEARTH_API_KEY=sk-… SSL_CERT_FILE=bundle.pem python agent_mcp.py
"""

import asyncio
import os

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

URL = f"{os.environ['HEARTH_URL']}/mcp"
HEADERS = {"Authorization": f"Bearer {os.environ['HEARTH_API_KEY']}"}


async def main():
    async with httpx2.AsyncClient(headers=HEADERS) as http:
        async with Client(streamable_http_client(URL, http_client=http)) as memory:
            print("tools:", ", ".join(tool.name for tool in (await memory.list_tools()).tools))
            fact = {"content": "The user prefers metric units.", "memory_type": "preference"}
            await memory.call_tool("sulcus_remember", fact)
            context = await memory.call_tool("sulcus_context", {"query": "units", "token_budget": 500})
            print(context.content[0].text)


asyncio.run(main())
