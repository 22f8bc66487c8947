"""Errors of the client. Each has the status and the code of the response: `docs/api.md` lists them."""

from __future__ import annotations

from dataclasses import dataclass

import httpx


@dataclass(eq=False)
class HearthError(Exception):
    """A request that failed. `status` is None if no node responded."""

    status: int | None
    code: str
    message: str
    request_id: str | None = None
    retry_after: float | None = None

    def __str__(self) -> str:
        head = f"{self.status} {self.code}" if self.status else self.code
        tail = f" (request {self.request_id})" if self.request_id else ""
        return f"{head}: {self.message}{tail}"


class NotFound(HearthError):
    """The memory does not exist, or its namespace is closed to the key."""


class Conflict(HearthError):
    """The present state forbids the write: for example, the memory is locked."""


class ConditionFailed(HearthError):
    """The memory changed since its etag was read. Nothing happened."""


class Unauthorized(HearthError):
    """The key is unknown, has ended, or may not do this."""


class Unavailable(HearthError):
    """No node could serve the request before the deadline. Nothing happened."""


class OutcomeUnknown(Unavailable):
    """As `Unavailable`, but the write may have been done: read before you repeat it."""


_OF_STATUS = {
    401: Unauthorized,
    403: Unauthorized,
    404: NotFound,
    409: Conflict,
    412: ConditionFailed,
    429: Unavailable,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def of_response(response: httpx.Response) -> HearthError:
    """The error that a response reports. A proxy may have sent it, so its body may be anything."""
    try:
        body = response.json()
        code, message = body["error"], body["message"]
    except (ValueError, KeyError, TypeError):
        body, code, message = {}, "bad_response", response.reason_phrase or "the response is no JSON"
    if body.get("field"):
        message = f"{body['field']} {message}"
    after = response.headers.get("Retry-After", "")
    return _OF_STATUS.get(response.status_code, HearthError)(
        response.status_code,
        code,
        message,
        response.headers.get("X-Request-Id"),
        float(after) if after.isdecimal() else None,
    )


def of_transport(request: httpx.Request, error: httpx.TransportError | None) -> HearthError:
    """The error for a request without a response."""
    cause = str(error) or type(error).__name__
    return Unavailable(None, "no_response", f"{request.url.scheme}://{request.url.netloc.decode()}: {cause}")
