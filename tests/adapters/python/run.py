"""The Python client and its adapters, each with the real package of its framework and three nodes of its own.

    run.py BINARY

Runs the checks of each adapter. Then four workers use it, and the leader is killed: no call may fail, and what was
acknowledged must be there afterwards, once. The example of the adapter runs last, on the nodes that are left.
"""

import asyncio
import importlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parents[2] / "deploy/clients/python"
sys.path.append(str(HERE.parent))
import cluster as clusters  # noqa: E402

from hearth_memory import Client  # noqa: E402
from hearth_memory.exchange import write  # noqa: E402

ADAPTERS = ["client", "langgraph", "openai_agents", "anthropic", "google_adk", "llama_index"]
WORKERS = 4
# Operations before the leader is killed, and those of each worker after that.
BEFORE, AFTER = 80, 30
PATIENCE = 120


class Load:
    """Workers that use an adapter until they are stopped. Each stores numbers, and removes every fourth one again."""

    def __init__(self, module):
        self.module = module
        self.done = [0] * WORKERS
        self.is_stopped = False

    async def worker(self, worker):
        while not self.is_stopped:
            await self.module.work(worker, self.done[worker])
            self.done[worker] += 1

    async def until(self, what, condition):
        ends = time.monotonic() + PATIENCE
        while not condition():
            if self.tasks.done():
                await self.tasks
            if time.monotonic() > ends:
                raise SystemExit(f"adapters: not within {PATIENCE} s: {what}")
            await asyncio.sleep(0.01)

    async def run(self, cluster):
        self.tasks = asyncio.gather(*map(self.worker, range(WORKERS)))
        await self.until("the first operations", lambda: sum(self.done) >= BEFORE)
        leader = cluster.request("/status")["leader"]
        cluster.kill(lambda node: node["id"] == leader)
        enough = [done + AFTER for done in self.done]
        await self.until("operations with another leader", lambda: all(map(int.__ge__, self.done, enough)))
        self.is_stopped = True
        await self.tasks

    def verify(self, client):
        """Compares what the nodes have with what was acknowledged, in its order."""
        for worker, done in enumerate(self.done):
            namespace = self.module.namespace(worker)
            labels = [memory["label"] for memory in client.list(namespace=namespace, consistency="linearizable")]
            stored = [int(re.search(r"number (\d+)", label)[1]) for label in labels]
            expected = [number for number in range(done) if number % 4 or not self.module.REMOVES]
            missing, extra = sorted(set(expected) - set(stored)), sorted(set(stored) - set(expected))
            assert not missing, f"lost: {missing}"
            assert not extra, f"not removed: {extra}"
            assert len(stored) == len(expected), "some are stored twice"
            assert stored == expected, "the order changed"


def merge_duplicates():
    """Merges equal texts by default, as tenants may: an adapter must keep them separate."""
    yield write("PATCH", "/settings/thermo", {"duplicates": {"on_duplicate": "merge"}})


def run(name, binary, work):
    cluster = clusters.Cluster(binary, str(work / name))
    try:
        # The leader first: the workers use it when it is killed.
        nodes = sorted(cluster.nodes, key=lambda node: node["id"] != cluster.leader)
        os.environ |= {"HEARTH_URL": ",".join(node["url"] for node in nodes)}
        os.environ |= {"HEARTH_API_KEY": cluster.key, "HEARTH_CA": cluster.ca}
        module = importlib.import_module(f"check_{name}")
        with Client() as client:
            client.run(merge_duplicates())
        module.check(cluster)
        load = Load(module)
        asyncio.run(load.run(cluster))
        with Client() as client:
            load.verify(client)
        subprocess.run([sys.executable, PACKAGE / "examples" / module.EXAMPLE], check=True, stdout=subprocess.DEVNULL)
        version = importlib.metadata.version(module.DISTRIBUTION)
        done = f"{sum(load.done)} operations, leader killed, none lost, none twice"
        print(f"adapters: {module.DISTRIBUTION} {version}: {done}", flush=True)
    finally:
        cluster.end()


def main():
    names = sys.argv[2:] or ADAPTERS
    subprocess.run([sys.executable, PACKAGE / "generate.py", "--check"], check=True)
    # Neither the profile of a person nor another cluster.
    work = Path(tempfile.mkdtemp())
    os.environ |= {"HEARTH_PROFILES": str(work / "profiles.toml"), "ORT_DISABLE_TELEMETRY": "1"}
    os.environ.pop("HEARTH_PROFILE", None)
    try:
        for name in names:
            run(name, sys.argv[1], work)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print("adapters: passed")


main()
