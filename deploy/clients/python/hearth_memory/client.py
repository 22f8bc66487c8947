"""The clients. Both run the programs of `operations.py`. They differ in how they send and wait."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import httpx

from . import operations, types
from .cluster import Cluster, find_cluster
from .exchange import Outcome, Program, Step, perform

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

P = ParamSpec("P")
T = TypeVar("T")


class _Base:
    """What both clients have: the cluster."""

    def __init__(
        self,
        urls: str | Sequence[str] | None = None,
        key: str | None = None,
        ca: str | os.PathLike[str] | None = None,
        *,
        namespace: str | None = None,
        profile: str | None = None,
        timeout: float = 30.0,
        cluster: Cluster | None = None,
    ) -> None:
        """Without arguments, the environment or a profile names the cluster: see `find_cluster`. With the `cluster` of
        another client, this one uses it too, and reads what the other one wrote."""
        self.cluster = cluster or find_cluster(
            urls, key, ca, namespace=namespace, profile=profile, timeout=timeout
        )
        self._tls = self.cluster.tls()
        self._open()

    def _open(self) -> None:
        raise NotImplementedError


def _as_method(operation: Callable[..., Any]) -> Any:
    """A method that runs an operation, with its documentation and its parameters."""

    @functools.wraps(operation)
    def method(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        return self.run(operation(*args, **kwargs))

    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    parameters = [own, *inspect.signature(operation).parameters.values()]
    method.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return method


# The same method for both clients: they differ in what a type checker reads.
def _method(operation: Callable[P, Program[T]]) -> Callable[Concatenate[Client, P], T]:
    return _as_method(operation)


def _async_method(operation: Callable[P, Program[T]]) -> Callable[Concatenate[AsyncClient, P], Awaitable[T]]:
    return _as_method(operation)


class Client(_Base):
    """A client for threads. Several threads may share it."""

    def _open(self) -> None:
        self._http = httpx.Client(verify=self._tls)

    def run(self, program: Program[T]) -> T:
        """Runs a program: sends its requests, and returns its result."""
        steps = perform(program, self.cluster)
        outcome: Outcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                return end.value
            outcome = self._do(step)

    def _do(self, step: Step) -> Outcome:
        if isinstance(step, httpx.Request):
            try:
                return self._http.send(step)
            except httpx.TransportError as error:
                return error
        time.sleep(step)
        return None

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    create = _method(operations.create)
    create_batch = _method(operations.create_batch)
    get = _method(operations.get)
    get_by_external_id = _method(operations.get_by_external_id)
    update = _method(operations.update)
    delete = _method(operations.delete)
    delete_batch = _method(operations.delete_batch)
    search = _method(operations.search)
    hot_context = _method(operations.hot_context)
    context = _method(operations.context)
    feedback = _method(operations.feedback)
    boost = _method(operations.boost)
    supersede = _method(operations.supersede)
    versions = _method(operations.versions)
    identity = _method(operations.identity)
    storage = _method(operations.storage)

    def list(self, **filters: Unpack[types.ListFilters]) -> Iterator[types.Memory]:
        """The memories that pass the filters, the oldest first by default. Reads a page when it is needed."""
        pages = operations.Pages(filters)
        while not pages.is_end:
            yield from self.run(pages.next())


class AsyncClient(_Base):
    """A client for asyncio. Its connections are of one event loop: another loop opens new ones."""

    def _open(self) -> None:
        self._http: httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def run(self, program: Program[T]) -> T:
        """Runs a program: sends its requests, and returns its result."""
        steps = perform(program, self.cluster)
        outcome: Outcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                return end.value
            outcome = await self._do(step)

    async def _do(self, step: Step) -> Outcome:
        if isinstance(step, httpx.Request):
            try:
                return await self._of_loop().send(step)
            except httpx.TransportError as error:
                return error
        await asyncio.sleep(step)
        return None

    def _of_loop(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        if self._http is None or self._loop is not loop:
            self._http, self._loop = httpx.AsyncClient(verify=self._tls), loop
        return self._http

    async def close(self) -> None:
        await self._of_loop().aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    create = _async_method(operations.create)
    create_batch = _async_method(operations.create_batch)
    get = _async_method(operations.get)
    get_by_external_id = _async_method(operations.get_by_external_id)
    update = _async_method(operations.update)
    delete = _async_method(operations.delete)
    delete_batch = _async_method(operations.delete_batch)
    search = _async_method(operations.search)
    hot_context = _async_method(operations.hot_context)
    context = _async_method(operations.context)
    feedback = _async_method(operations.feedback)
    boost = _async_method(operations.boost)
    supersede = _async_method(operations.supersede)
    versions = _async_method(operations.versions)
    identity = _async_method(operations.identity)
    storage = _async_method(operations.storage)

    async def list(self, **filters: Unpack[types.ListFilters]) -> AsyncIterator[types.Memory]:
        """The memories that pass the filters, the oldest first by default. Reads a page when it is needed."""
        pages = operations.Pages(filters)
        while not pages.is_end:
            for memory in await self.run(pages.next()):
                yield memory
