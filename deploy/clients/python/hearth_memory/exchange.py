"""Requests and the policy of their repetition, without input and output.

A *program* is a generator. It yields requests, receives their responses, and returns a result. `perform` turns a
program into steps: a step is a request to one node, or a number of seconds to wait. A client executes each step and
sends its outcome back. So `Client` and `AsyncClient` differ only in how they execute a step.

    program   yields Request, receives httpx.Response          operations.py, adapters
    perform   yields httpx.Request or seconds                  this file
    client    sends and waits                                  client.py
"""

from __future__ import annotations

import json
import random
import time
import uuid
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import httpx

from .cluster import Cluster
from .errors import HearthError, OutcomeUnknown, of_response, of_transport
from .types import VERSION

T = TypeVar("T")

# Seconds: the first pause is up to the first number, each further one up to twice as long.
_PAUSE, _PAUSE_MAX = 0.1, 3.0
# Seconds until a node has accepted a connection, and the shortest time for an attempt that has begun.
_CONNECT_TIMEOUT, _TIMEOUT_MIN = 5.0, 0.01


@dataclass(frozen=True)
class Request:
    """A request to any node. `path` is below `/api/v1`. Query parameters that are None are left out."""

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    headers: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def is_write(self) -> bool:
        return "Idempotency-Key" in self.headers


Program = Generator[Request, httpx.Response, T]
Step = httpx.Request | float
Outcome = httpx.Response | httpx.TransportError | None


def read(method: str, path: str, query: Mapping[str, Any] | None = None, body: Any = None) -> Request:
    """A request that changes nothing."""
    return Request(method, path, query or {}, body)


def write(
    method: str,
    path: str,
    body: Any = None,
    *,
    query: Mapping[str, Any] | None = None,
    etag: str | None = None,
    is_new: bool = False,
    tool: str | None = None,
    idempotency_key: str | None = None,
) -> Request:
    """A request that changes something. Its key lets a node recognize a repetition, so it is done once."""
    headers = {
        "Idempotency-Key": idempotency_key or str(uuid.uuid4()),
        "If-Match": etag,
        "If-None-Match": "*" if is_new else None,
        "X-Hearth-Tool": tool,
    }
    return Request(method, path, query or {}, body, headers)


def perform(program: Program[T], cluster: Cluster) -> Generator[Step, Outcome, T]:
    """The steps of a program. A request that fails raises its error in the program."""
    proceed = partial(next, program)
    while True:
        try:
            request = proceed()
        except StopIteration as end:
            return end.value
        try:
            response = yield from exchange(request, cluster)
            proceed = partial(program.send, response)
        except HearthError as error:
            proceed = partial(program.throw, error)


def exchange(request: Request, cluster: Cluster) -> Generator[Step, Outcome, httpx.Response]:
    """The steps of one request: attempts at one node after the other, until one succeeds, an error is final, or the
    next attempt would begin after the deadline."""
    deadline = time.monotonic() + cluster.timeout
    content = None if request.body is None else json.dumps(request.body, allow_nan=False).encode()
    may_be_done, attempt = False, 0
    while True:
        node = cluster.node
        message = _message(request, content, cluster, node, deadline - time.monotonic())
        outcome = yield message
        if isinstance(outcome, httpx.Response):
            if outcome.is_success:
                cluster.advance(outcome.headers)
                return outcome
            error = of_response(outcome)
        else:
            error = of_transport(message, outcome)
        may_be_done |= _may_be_done(outcome)
        if not _is_passing(error):
            raise error
        cluster.leave(node)
        pause = (error.retry_after or 0) + random.uniform(0, min(_PAUSE_MAX, _PAUSE * 2**attempt))
        if time.monotonic() + pause >= deadline:
            if may_be_done and request.is_write:
                raise OutcomeUnknown(error.status, error.code, error.message, error.request_id, error.retry_after)
            raise error
        yield pause
        attempt += 1


def _message(request: Request, content: bytes | None, cluster: Cluster, node: int, remaining: float) -> httpx.Request:
    """The request to one node. A node that hangs leaves half of the time for the others."""
    timeout = max(_TIMEOUT_MIN, remaining if len(cluster.urls) == 1 else remaining / 2)
    limits = httpx.Timeout(timeout, connect=min(timeout, _CONNECT_TIMEOUT))
    headers = {
        "Authorization": f"Bearer {cluster.key}",
        "User-Agent": f"hearth-memory/{VERSION}",
        "Content-Type": "application/json",
        "X-Namespace": cluster.namespace,
        **request.headers,
    }
    if not request.is_write:
        headers["X-Hearth-Min-Index"] = str(cluster.index)
    return httpx.Request(
        request.method,
        f"{cluster.urls[node]}/api/v1{request.path}",
        params={name: value for name, value in request.query.items() if value is not None},
        headers={name: value for name, value in headers.items() if value is not None},
        content=content,
        extensions={"timeout": limits.as_dict()},
    )


def _is_passing(error: HearthError) -> bool:
    """Whether another attempt may have another result. Every write has a key, so each may be repeated."""
    if error.status == 429:
        return error.retry_after is not None
    return error.status in (None, 502, 503, 504)


def _may_be_done(outcome: Outcome) -> bool:
    """Whether a node may have done the write: it accepted the connection, and its response is not 503 or 429."""
    if isinstance(outcome, httpx.Response):
        return outcome.status_code in (502, 504)
    return not isinstance(outcome, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout))
