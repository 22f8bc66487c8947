"""A cluster as its clients use it: its URLs and the key, the node that served last, and the highest log index.
Arguments name it, or the environment, or a profile of `hearth login`, as for the command line."""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# The public listener of the first node of `hearth dev`.
_DEFAULT_URL = "https://127.0.0.1:4200"


@dataclass
class Cluster:
    """Several clients may share one: then each reads what the others wrote."""

    urls: Sequence[str]
    key: str
    # Certificate authority as PEM. Without it, those of the system.
    ca: str | None = None
    # Namespace of requests that name none.
    namespace: str | None = None
    # Seconds for one request, repetitions included.
    timeout: float = 30.0
    # Index of the URL that the next request uses.
    node: int = 0
    # The highest log index in a response.
    index: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self.ca)

    def leave(self, node: int) -> None:
        """Uses the next node, unless another request has left this one already."""
        with self._lock:
            if self.node == node:
                self.node = (node + 1) % len(self.urls)

    def advance(self, headers: Mapping[str, str]) -> None:
        """Keeps the log index of a response."""
        with self._lock:
            self.index = max(self.index, int(headers.get("X-Hearth-Index", 0)))


def find_cluster(
    urls: str | Sequence[str] | None = None,
    key: str | None = None,
    ca: str | os.PathLike[str] | None = None,
    *,
    namespace: str | None = None,
    profile: str | None = None,
    timeout: float = 30.0,
) -> Cluster:
    """The cluster that the arguments, the environment or a profile name. `urls` may have commas; `ca` is a file."""
    urls = urls or os.environ.get("HEARTH_URL") or ()
    urls = [url.strip().rstrip("/") for url in (urls.split(",") if isinstance(urls, str) else urls)]
    if wrong := [url for url in urls if not url.startswith(("http://", "https://"))]:
        raise ValueError(f"{wrong[0]!r} is no URL: it begins with https://")
    profile = profile or os.environ.get("HEARTH_PROFILE")
    # The key of a profile is for the URLs of that profile only.
    stored = {} if urls and not profile else _load_profile(profile)
    if stored and not set(urls) <= {url.rstrip("/") for url in stored["urls"]}:
        raise ValueError(f"the key of this profile is for {', '.join(stored['urls'])} only")
    key = key or os.environ.get("HEARTH_API_KEY", "").strip() or stored.get("key")
    if not key:
        raise ValueError("no API key: pass `key`, set HEARTH_API_KEY, or run `hearth login`")
    ca = ca or os.environ.get("HEARTH_CA")
    return Cluster(
        urls=urls or [url.rstrip("/") for url in stored.get("urls", (_DEFAULT_URL,))],
        key=key,
        ca=Path(ca).read_text() if ca else stored.get("ca"),
        namespace=namespace or stored.get("namespace"),
        timeout=timeout,
    )


def _load_profile(name: str | None) -> dict[str, Any]:
    """The profile with this name, or the current one. Empty if there is none."""
    config = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    path = Path(os.environ.get("HEARTH_PROFILES") or Path(config) / "hearth/profiles.toml")
    if not path.exists() and not name:
        return {}
    try:
        import tomllib
    except ImportError:
        raise ValueError("profiles need Python 3.11: set HEARTH_URL, HEARTH_API_KEY and HEARTH_CA") from None
    profiles = tomllib.loads(path.read_text()) if path.exists() else {}
    name = name or profiles.get("current")
    if name is None:
        return {}
    try:
        return profiles["profiles"][name]
    except KeyError:
        raise ValueError(f"there is no profile {name!r} in {path}") from None
