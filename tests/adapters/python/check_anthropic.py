"""The memory tool of Anthropic: the same random commands on it and on the tool for local files."""

import asyncio
import functools
import os
import random
import re
import tempfile
import threading

from anthropic.tools import ToolError
from anthropic.tools.memory import BetaLocalFilesystemMemoryTool

from hearth_memory import Client
from hearth_memory.anthropic import AsyncHearthMemoryTool, HearthMemoryTool

DISTRIBUTION, EXAMPLE, REMOVES = "anthropic", "anthropic_memory_tool.py", True
COMMANDS = 250


@functools.cache
def tools():
    return HearthMemoryTool(), AsyncHearthMemoryTool()


def namespace(worker):
    return f"anthropic/load-{worker}"


async def work(worker, number):
    blocking, asynchronous = tools()

    async def call(command, **fields):
        # Workers use both tools.
        if worker % 2:
            return await asynchronous.call({"command": command, **fields})
        return await asyncio.to_thread(blocking.call, {"command": command, **fields})

    path = f"/memories/load-{worker}/file {number}"
    await call("create", path=path, file_text="draft")
    await call("str_replace", path=path, old_str="draft", new_str=f"number {number}")
    assert f"number {number}" in await call("view", path=path)
    if number % 4 == 0:
        await call("delete", path=path)


def check(cluster):
    outputs_equal_those_of_local_files(random.Random(1))
    paths_stay_below_the_top()
    contents_come_back_exactly()
    concurrent_edits_are_all_kept()
    asyncio.run(asynchronous_tool_has_the_same_commands())
    errors_are_tool_errors(cluster)


def command(name, **fields):
    return {"command": name, **fields}


def output(tool, fields):
    """The output of a command, or its error. Sizes of directories are left out: those of a disk are its own."""
    try:
        text = tool.call(fields)
    except ToolError as error:
        return f"error: {error}"
    if "levels deep" not in text:
        return text
    head, directory, *entries = text.split("\n")
    return [head, directory.split("\t")[1], *(re.sub(r"^\S+(\t.*/)$", r"\1", entry) for entry in entries)]


def outputs_equal_those_of_local_files(dice):
    names = ["a.md", "b", ".hidden", "d/c.md", "d/x", "d/e/f", "d/e/g/h", "Ünal 2%.md", "d", "d/e"]
    texts = ["", "\n", "one", "one\n", "one\ntwo\none\n", "a\r\nb\n", "  \n\n", "x" * 1536, "é\u2028é\n\nlast"]
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = HearthMemoryTool(root="parity"), BetaLocalFilesystemMemoryTool(folder)
        succeeded = 0

        def choose():
            return f"/memories/{dice.choice(names)}"

        for number in range(COMMANDS):
            kind = dice.choices(["view", "create", "str_replace", "insert", "delete", "rename"], [5, 6, 4, 4, 2, 2])[0]
            if kind == "view":
                fields = command(kind, path=dice.choice(["/memories", choose()]),
                                 view_range=dice.choice([None, None, [1, 2], [2, -1], [5, 9]]))
            elif kind == "create":
                fields = command(kind, path=choose(), file_text=dice.choice(texts))
            elif kind == "str_replace":
                old = dice.choice(["one", "two", "b\n", "absent"])
                fields = command(kind, path=choose(), old_str=old, new_str="new\nline")
            elif kind == "insert":
                fields = command(kind, path=choose(), insert_line=dice.choice([-1, 0, 1, 2, 9]), insert_text="put\n")
            elif kind == "delete":
                fields = command(kind, path=choose())
            else:
                fields = command(kind, old_path=choose(), new_path=choose())
            # The tool for local files fails with errors of the disk for a path below a file, or below itself.
            paths = [fields[name] for name in ("path", "old_path", "new_path") if name in fields]
            if kind in ("create", "rename") and any(is_below_a_file(folder, path) for path in paths):
                continue
            if kind == "rename" and paths[1].startswith(paths[0] + "/"):
                continue
            left, right = output(ours, fields), output(theirs, fields)
            assert left == right, f"command {number}, {fields}: {left} is not {right}"
            succeeded += not str(left).startswith("error")
            # A directory in Hearth exists as long as it has a file.
            for directory, _, _ in os.walk(f"{folder}/memories", topdown=False):
                if not os.listdir(directory) and directory != f"{folder}/memories":
                    os.rmdir(directory)
        assert succeeded > COMMANDS / 6


def is_below_a_file(folder, path):
    parts = path.split("/")
    return any(os.path.isfile(folder + "/".join(parts[:end])) for end in range(3, len(parts)))


def paths_stay_below_the_top():
    tool = HearthMemoryTool(root="traversal")
    for path in ["/memories/../etc/passwd", "/memories/a/../../x", "/memories/..", "/etc/passwd", "memories/a",
                 "/memoriesx/a", "", "//memories", "/memories/a/../../memories2/b"]:
        for fields in [command("create", path=path, file_text="x"), command("view", path=path),
                       command("delete", path=path), command("rename", old_path=path, new_path="/memories/y"),
                       command("str_replace", path=path, old_str="a", new_str="b"),
                       command("insert", path=path, insert_line=0, insert_text="b")]:
            assert output(tool, fields).startswith("error: Pa"), (path, fields)
    for path in ["/memories", "/memories/", "/memories/a/.."]:
        assert "Cannot delete" in output(tool, command("delete", path=path))
        assert "Cannot rename" in output(tool, command("rename", old_path=path, new_path="/memories/y"))
    tool.call(command("create", path="/memories/./a//b/../%2e%2e", file_text="x"))
    assert "/memories/a/%2e%2e" in tool.call(command("view", path="/memories"))
    assert "already exists" in output(tool, command("create", path="/memories/a/%2e%2e/below", file_text="x"))
    with Client() as client:
        assert len(list(client.list(namespace_prefix="traversal"))) == 1


def contents_come_back_exactly():
    tool, client = HearthMemoryTool(root="exact"), Client()
    for number, text in enumerate(["", " ", "\t\n", "e\u0301 \u00e9 \0\r\n", "the same", "the same", "x" * 65_536]):
        path = f"/memories/f{number}"
        tool.call(command("create", path=path, file_text=text))
        shown = tool.call(command("view", path=path)).split("\n", 1)[1]
        assert "\n".join(line[7:] for line in shown.split("\n")) == text
    assert len(list(client.list(namespace_prefix="exact"))) == 7
    assert "has 65537 bytes" in output(tool, command("create", path="/memories/long", file_text="x" * 65_537))
    tool.call(command("insert", path="/memories/f0", insert_line=0, insert_text="filled"))
    tool.call(command("str_replace", path="/memories/f0", old_str="filled\n", new_str=""))
    assert tool.call(command("view", path="/memories/f0")).endswith("     1\t")
    tool.call(command("rename", old_path="/memories/f0", new_path="/memories/deep/er/f0"))
    assert tool.call(command("view", path="/memories/deep/er/f0")).endswith("     1\t")
    assert tool.clear_all_memory() == "All memory cleared"
    assert not list(client.list(namespace_prefix="exact"))


def concurrent_edits_are_all_kept():
    tool = HearthMemoryTool(root="concurrent")
    tool.call(command("create", path="/memories/log", file_text="begin\n"))

    def insert(worker):
        for number in range(8):
            tool.call(command("insert", path="/memories/log", insert_line=1, insert_text=f"{worker}:{number}"))

    threads = [threading.Thread(target=insert, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    shown = tool.call(command("view", path="/memories/log"))
    assert all(shown.count(f"\t{worker}:{number}\n") == 1 for worker in range(4) for number in range(8))


async def asynchronous_tool_has_the_same_commands():
    tool = AsyncHearthMemoryTool(root="asynchronous")
    created = await tool.call(command("create", path="/memories/a", file_text="one"))
    assert created == "File created successfully at: /memories/a"
    await tool.call(command("str_replace", path="/memories/a", old_str="one", new_str="two"))
    assert (await tool.call(command("view", path="/memories/a"))).endswith("     1\ttwo")
    assert tool.to_dict() == HearthMemoryTool().to_dict()
    assert await tool.clear_all_memory() == "All memory cleared"


def errors_are_tool_errors(cluster):
    tool = HearthMemoryTool(Client("https://127.0.0.1:9", "k", cluster.ca, timeout=0.2))
    assert output(tool, command("view", path="/memories")).startswith("error: The memory is not available: no_response")
