#!/usr/bin/env python3
"""Put the questions of `make eval` to other memory services, with the same vectors, and print its table.

usage: peers.py SETS VECTORS mem0|mcp-memory-service

SETS is what `eval --print-sets` prints, and VECTORS the file in which it keeps its vectors. Each service is the package of
PyPI with its defaults: mem0 stores each text as it is (infer=False) in Qdrant's local mode, and mcp-memory-service in
SQLite, searched by its hybrid search of vectors and words. Nothing is sent anywhere.
"""

import asyncio
import hashlib
import json
import logging
import math
import os
import struct
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

os.environ.update(MEM0_TELEMETRY="False", OPENAI_API_KEY="none", HF_HUB_OFFLINE="1", MCP_MEMORY_USE_ONNX="false")
DIMENSION = 384
LIMIT = 100
RECORD = struct.Struct(f"<32s{DIMENSION}f")


class Vectors:
    """Vectors by text, as `eval` has embedded it."""

    def __init__(self, path: Path, model: str) -> None:
        self.model = model
        self.known = {key: vector for key, *vector in RECORD.iter_unpack(path.read_bytes())}

    def of(self, text: str) -> list[float]:
        return self.known[hashlib.sha256((self.model + text).encode()).digest()]


class Mem0:
    def __init__(self, folder: str, vectors: Vectors) -> None:
        from mem0 import Memory
        from mem0.embeddings.base import EmbeddingBase

        class Known(EmbeddingBase):
            def embed(self, text: str, memory_action: str | None = None) -> list[float]:
                return vectors.of(text)

        store = {"path": folder, "embedding_model_dims": DIMENSION, "on_disk": False, "collection_name": "eval"}
        self.memory = Memory.from_config(
            {"vector_store": {"provider": "qdrant", "config": store}, "history_db_path": f"{folder}/history.db"}
        )
        self.memory.embedding_model = Known()

    def add(self, namespace: str, text: str) -> str:
        added = self.memory.add(text, user_id=namespace, infer=False)["results"]
        return added[0]["id"] if added else ""

    def search(self, namespace: str, query: str) -> list[str]:
        found = self.memory.search(query, filters={"user_id": namespace}, top_k=LIMIT, threshold=0.0)
        return [result["id"] for result in found["results"]]


class McpMemoryService:
    def __init__(self, folder: str, vectors: Vectors) -> None:
        from mcp_memory_service.storage.sqlite_vec import SqliteVecMemoryStorage

        self.loop = asyncio.new_event_loop()
        self.storage = SqliteVecMemoryStorage(f"{folder}/memories.db")
        self.loop.run_until_complete(self.storage.initialize())
        self.storage._generate_embedding = vectors.of

    def add(self, namespace: str, text: str) -> str:
        from mcp_memory_service.models.memory import Memory

        digest = hashlib.sha256(f"{namespace}\0{text}".encode()).hexdigest()
        memory = Memory(content=text, content_hash=digest)
        stored, reason = self.loop.run_until_complete(
            self.storage.store(memory, skip_semantic_dedup=True, store=namespace)
        )
        if not stored and "uplicate" not in reason:
            raise SystemExit(f"not stored: {reason}")
        return digest

    def search(self, namespace: str, query: str) -> list[str]:
        search = self.storage.retrieve_hybrid(query, n_results=LIMIT, store=namespace)
        return [result.memory.content_hash for result in self.loop.run_until_complete(search)]


SERVICES = {"mem0": Mem0, "mcp-memory-service": McpMemoryService}


def row(ranks: list[tuple[list[int], int]]) -> str:
    """The measures of the ranks from 0 at which answers were found, each with the number of answers."""
    gain = lambda rank: 1 / math.log2(rank + 2)
    within = lambda most: sum(bool(found) and found[0] < most for found, _ in ranks)
    reciprocal = sum(1 / (found[0] + 1) for found, _ in ranks if found)
    ndcg = sum(sum(gain(rank) for rank in found if rank < 10) / sum(map(gain, range(min(10, of)))) for found, of in ranks)
    sums = [within(1), within(5), within(10), reciprocal, ndcg]
    return " | ".join([str(len(ranks)), *(f"{100 * value / len(ranks):.1f}" for value in sums)])


def main() -> None:
    sets, vectors, name = sys.argv[1:]
    logging.disable(logging.CRITICAL)
    lines = [json.loads(line) for line in Path(sets).read_text(encoding="utf-8").splitlines()]
    vectors = Vectors(Path(vectors), lines.pop(0)["model"])
    print("| questions about | half | number | any@1 | any@5 | any@10 | MRR | nDCG@10 |\n|" + "---|" * 8)
    for line in lines:
        with tempfile.TemporaryDirectory() as folder:
            service = SERVICES[name](folder, vectors)
            ids = [service.add(namespace, text) for namespace, text in line["memories"]]
            rows = defaultdict(list)
            for question in line["questions"]:
                found = service.search(question["namespace"], question["text"])
                answers = {ids[number] for number in question["answers"]}
                ranks = [rank for rank, id in enumerate(found) if id in answers]
                rows[question["kind"], question["half"]].append((ranks, len(answers)))
            for (kind, half), ranks in sorted(rows.items()):
                print(f"| {kind} | {half} | {row(ranks)} |", flush=True)


if __name__ == "__main__":
    main()
