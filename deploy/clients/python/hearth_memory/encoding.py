"""How adapters write the names and values of a framework, so that they come back exactly.

Hearth keeps texts of memories byte for byte, but namespaces, external ids and metadata in Unicode's NFC. So names are
percent-encoded, and values are JSON in the text."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote, unquote

_NAMESPACE_BYTES, _EXTERNAL_ID_BYTES, _LABEL_BYTES = 128, 256, 64 * 1024


def namespace_of(root: str, *names: str) -> str:
    """The namespace for names below a root."""
    namespace = "/".join([root, *map(_quote, names)])
    if len(namespace.encode()) > _NAMESPACE_BYTES:
        raise ValueError(f"the namespace {namespace!r} is longer than {_NAMESPACE_BYTES} bytes")
    return namespace


def names_of(root: str, namespace: str) -> tuple[str, ...]:
    """The names of a namespace below a root."""
    return tuple(map(unquote, namespace.removeprefix(root).split("/")[1:]))


def external_id_of(*names: str) -> str:
    """The external id for names."""
    external_id = "/".join(map(_quote, names))
    if not 0 < len(external_id) <= _EXTERNAL_ID_BYTES:
        raise ValueError(f"the key {'/'.join(names)!r} is empty, or longer than {_EXTERNAL_ID_BYTES} bytes")
    return external_id


def label_of(value: Any, what: str) -> str:
    """The text of a memory for a value: its JSON, which `json.loads` reads. `what` names the value in an error."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    # UTF-8 has no lone surrogates. In JSON, an escape stands for one.
    return fitting(text.encode("utf-8", "backslashreplace").decode(), what)


def fitting(text: str, what: str, limit: int = _LABEL_BYTES) -> str:
    """The text, if a memory may have it. `what` names it in an error."""
    size = len(text.encode())
    if size > limit:
        raise ValueError(f"{what} has {size} bytes; a memory of Hearth has at most {limit}")
    return text


def time_of(text: str) -> datetime:
    """A time of a response."""
    seconds, _, fraction = text.removesuffix("Z").partition(".")
    return datetime.fromisoformat(seconds).replace(microsecond=int(fraction.ljust(6, "0")), tzinfo=timezone.utc)


def _quote(name: str) -> str:
    return quote(name, safe="@:+=,")
