"""The memory tool of Anthropic in Hearth.

    client.beta.messages.run_tools(..., tools=[HearthMemoryTool()])

A file is a memory: its content is the text, at most 64 KiB, its directory is a namespace below `root`, and its name is
the external id. A directory exists as long as it has a file. An edit whose file another client changed meanwhile is
done again on the new content. If two clients create one path at the same moment, the later content replaces the other.
"""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from anthropic.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError

from . import operations
from .client import AsyncClient, Client
from .encoding import external_id_of, fitting, names_of, namespace_of
from .errors import ConditionFailed, HearthError, NotFound
from .exchange import Program
from .types import Memory, NewMemory

_TOP = "/memories"
_LINES_MAX, _NUMBER_WIDTH = 999_999, 6
_DEPTH = 2
# The text of a memory has a character that is no white space. This one stands for a content without any.
_BLANK = "(blank file)"


class _Files:
    """The commands of the tool as programs. Their results and errors are texts for the model."""

    def __init__(self, root: str) -> None:
        self._root = root

    def view(self, command: Any) -> Program[str]:
        path = _normalized(command.path)
        memory = yield from self._find(path)
        if memory is not None:
            return _numbered(command.path, _content(memory), command.view_range)
        memories = yield from self._below(path)
        if not memories and path != _TOP:
            raise ToolError(f"The path {command.path} does not exist. Please provide a valid path.")
        files = {self._path(memory): len(_content(memory).encode()) for memory in memories}
        return _listing(command.path, path, files)

    def create(self, command: Any) -> Program[str]:
        path = _normalized(command.path)
        exists = ToolError(f"File {command.path} already exists")
        if (yield from self._exists(path)):
            raise exists
        try:
            yield from operations.create(**self._memory(path, command.file_text), is_new=True, tool="memory")
        except ConditionFailed:
            # Another client created it meanwhile.
            raise exists from None
        return f"File created successfully at: {command.path}"

    def str_replace(self, command: Any) -> Program[str]:
        old = command.old_str

        def replace(content: str) -> str:
            places = [place for place in range(len(content)) if content.startswith(old, place)]
            if not places:
                raise ToolError(
                    f"No replacement was performed, old_str `{old}` did not appear verbatim in {command.path}."
                )
            if content.count(old) > 1:
                lines = ", ".join(str(_line(content, place)) for place in places)
                raise ToolError(
                    f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {lines}."
                    " Please ensure it is unique"
                )
            return content.replace(old, command.new_str)

        before, after = yield from self._edit(command.path, replace)
        line = _line(before, before.find(old))
        return (
            "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
            + _numbered_lines(after.split("\n"), max(1, line - 2), line + 2)
        )

    def insert(self, command: Any) -> Program[str]:
        def insert(content: str) -> str:
            lines = content.removesuffix("\n").split("\n") if content else []
            if not 0 <= command.insert_line <= len(lines):
                raise ToolError(
                    f"Invalid `insert_line` parameter: {command.insert_line}."
                    f" It should be within the range [0, {len(lines)}]."
                )
            lines.insert(command.insert_line, command.insert_text.rstrip("\n"))
            return "\n".join(lines).removesuffix("\n") + "\n"

        yield from self._edit(command.path, insert)
        return f"The file {command.path} has been edited."

    def delete(self, command: Any) -> Program[str]:
        path = _normalized(command.path)
        if path == _TOP:
            raise ToolError(f"Cannot delete the {_TOP} directory itself")
        memory = yield from self._find(path)
        memories = [memory] if memory is not None else (yield from self._below(path))
        if not memories:
            raise ToolError(f"The path {command.path} does not exist")
        yield from operations.delete_all(memory["id"] for memory in memories)
        return f"Successfully deleted {command.path}"

    def rename(self, command: Any) -> Program[str]:
        old, new = _normalized(command.old_path), _normalized(command.new_path)
        if old == _TOP:
            raise ToolError(f"Cannot rename the {_TOP} directory itself")
        if (yield from self._exists(new)):
            raise ToolError(f"The destination {command.new_path} already exists")
        memory = yield from self._find(old)
        memories = [memory] if memory is not None else (yield from self._below(old))
        if not memories:
            raise ToolError(f"The path {command.old_path} does not exist")
        for one in memories:
            yield from self._move(one["id"], new + self._path(one).removeprefix(old))
        return f"Successfully renamed {command.old_path} to {command.new_path}"

    def clear_all_memory(self) -> Program[str]:
        memories = yield from self._below(_TOP)
        yield from operations.delete_all(memory["id"] for memory in memories)
        return "All memory cleared"

    def _namespace(self, directory: str) -> str:
        return namespace_of(self._root, *directory.removeprefix(_TOP).split("/")[1:])

    def _path(self, memory: Memory) -> str:
        """The path of the file of a memory."""
        names = names_of(self._root, memory["namespace"])
        return "/".join([_TOP, *names, unquote(memory["external_id"] or "")])

    def _memory(self, path: str, content: str) -> NewMemory:
        directory, name = posixpath.split(path)
        label, metadata = _text_of(path, content)
        return {
            "label": label,
            "metadata": metadata,
            "namespace": self._namespace(directory),
            "external_id": external_id_of(name),
            "on_duplicate": "allow",
        }

    def _find(self, path: str) -> Program[Memory | None]:
        """The file at a path."""
        directory, name = posixpath.split(path)
        if path == _TOP:
            return None
        try:
            return (yield from operations.get_by_external_id(
                external_id_of(name), namespace=self._namespace(directory), consistency="linearizable"
            ))
        except NotFound:
            return None

    def _below(self, directory: str) -> Program[list[Memory]]:
        """The files of a directory and all below it."""
        return (yield from operations.select(
            lambda _: True, namespace_prefix=self._namespace(directory), consistency="linearizable"
        ))

    def _exists(self, path: str) -> Program[bool]:
        """Whether a path is a file or a directory, or below a file."""
        if path == _TOP or (yield from self._below(path)):
            return True
        while path != _TOP:
            if (yield from self._find(path)) is not None:
                return True
            path = posixpath.dirname(path)
        return False

    def _move(self, id: str, path: str) -> Program[None]:
        """Stores a file at its new path, and then deletes the old one, unless it changed: so no content is lost."""
        while True:
            try:
                tagged = yield from operations.get(id)
                yield from operations.create(**self._memory(path, _content(tagged)), tool="memory")
                yield from operations.delete(id, etag=tagged["etag"])
                return
            except ConditionFailed:
                # Another client edited it: the new file gets the edit, too.
                continue
            except NotFound:
                # Another client deleted or moved it.
                return

    def _edit(self, path: str, change: Callable[[str], str]) -> Program[tuple[str, str]]:
        """Changes the content of a file. Returns the content before and after."""
        while True:
            memory = yield from self._find(_normalized(path))
            if memory is None:
                if _normalized(path) == _TOP or (yield from self._below(_normalized(path))):
                    raise ToolError(f"The path {path} is not a file.")
                raise ToolError(f"The path {path} does not exist. Please provide a valid path.")
            try:
                tagged = yield from operations.get(memory["id"])
                before = _content(tagged)
                after = change(before)
                label, metadata = _text_of(path, after)
                yield from operations.update(tagged["id"], etag=tagged["etag"], label=label, metadata=metadata)
                return before, after
            except (ConditionFailed, NotFound):
                # Another client changed or deleted it: its new content may need another change.
                continue


def _normalized(path: str) -> str:
    """The path without `.`, `..` and repeated slashes. It is the top directory, or below it."""
    if path != _TOP and not path.startswith(f"{_TOP}/"):
        raise ToolError(f"Path must start with {_TOP}, got: {path}")
    normalized = posixpath.normpath(path)
    if normalized != _TOP and not normalized.startswith(f"{_TOP}/"):
        raise ToolError(f"Path {path} would escape {_TOP} directory")
    return normalized


def _text_of(path: str, content: str) -> tuple[str, dict[str, Any]]:
    """The text and the metadata of a memory for the content of a file. White space alone is kept in the metadata."""
    if content.strip():
        return fitting(content, f"the file {path}"), {}
    return _BLANK, {"content": content}


def _content(memory: Memory) -> str:
    return memory["metadata"].get("content", memory["label"])


def _line(content: str, place: int) -> int:
    return content.count("\n", 0, place) + 1


def _numbered(path: str, content: str, view_range: list[int] | None) -> str:
    lines = content.split("\n")
    if len(lines) > _LINES_MAX:
        raise ToolError(f"File {path} exceeds maximum line limit of {_LINES_MAX:,} lines.")
    first, last = view_range if view_range and len(view_range) == 2 else (1, -1)
    last = len(lines) if last == -1 else last
    return f"Here's the content of {path} with line numbers:\n" + _numbered_lines(lines, max(1, first), last)


def _numbered_lines(lines: list[str], first: int, last: int) -> str:
    shown = enumerate(lines[first - 1 : last], first)
    return "\n".join(f"{number:>{_NUMBER_WIDTH}}\t{line}" for number, line in shown)


def _listing(shown: str, directory: str, files: dict[str, int]) -> str:
    """The files and directories of a directory, with their sizes. That of a directory is the sum of its files."""
    sizes: dict[str, int] = defaultdict(int)
    for path, size in files.items():
        names = path.removeprefix(directory).split("/")[1:]
        if any(name.startswith(".") for name in names):
            continue
        sizes[""] += size
        for depth in range(1, min(len(names), _DEPTH) + 1):
            sizes["/" + "/".join(names[:depth]) + ("/" if depth < len(names) else "")] += size
    # A directory stands before what it has, where its name without the slash belongs.
    entries = sorted((entry for entry in sizes if entry), key=lambda entry: entry.strip("/").split("/"))
    head = f"Here're the files and directories up to {_DEPTH} levels deep in {shown}, excluding hidden items:"
    return "\n".join([head, *(f"{_size(sizes[entry])}\t{shown}{entry}" for entry in ["", *entries])])


def _size(size: int) -> str:
    """A number of bytes with a unit, as `1.5K`."""
    unit = 0
    while size >= 1024 ** (unit + 1) and unit < 3:
        unit += 1
    number = size / 1024**unit
    return f"{number:.{0 if number.is_integer() else 1}f}{'BKMG'[unit]}"


def _tool_error(error: Exception) -> ToolError:
    """An error of Hearth, or of a limit, as the model reads it."""
    return ToolError(f"The memory is not available: {error}" if isinstance(error, HearthError) else str(error))


class _Commands:
    """The methods of both tools. What `_run` returns is a text, or awaits one."""

    _files: _Files
    _run: Callable[[Program[str]], Any]

    def view(self, command: Any) -> Any:
        return self._run(self._files.view(command))

    def create(self, command: Any) -> Any:
        return self._run(self._files.create(command))

    def str_replace(self, command: Any) -> Any:
        return self._run(self._files.str_replace(command))

    def insert(self, command: Any) -> Any:
        return self._run(self._files.insert(command))

    def delete(self, command: Any) -> Any:
        return self._run(self._files.delete(command))

    def rename(self, command: Any) -> Any:
        return self._run(self._files.rename(command))

    def clear_all_memory(self) -> Any:
        return self._run(self._files.clear_all_memory())


class HearthMemoryTool(_Commands, BetaAbstractMemoryTool):
    """The tool for `Anthropic`."""

    def __init__(self, client: Client | None = None, *, root: str = "anthropic", **options: Any) -> None:
        super().__init__(**options)
        self._client, self._files = client or Client(), _Files(root)

    def _run(self, program: Program[str]) -> str:
        try:
            return self._client.run(program)
        except (HearthError, ValueError) as error:
            raise _tool_error(error) from error


class AsyncHearthMemoryTool(_Commands, BetaAsyncAbstractMemoryTool):
    """The tool for `AsyncAnthropic`."""

    def __init__(self, client: AsyncClient | None = None, *, root: str = "anthropic", **options: Any) -> None:
        super().__init__(**options)
        self._client, self._files = client or AsyncClient(), _Files(root)

    async def _run(self, program: Program[str]) -> str:
        try:
            return await self._client.run(program)
        except (HearthError, ValueError) as error:
            raise _tool_error(error) from error
