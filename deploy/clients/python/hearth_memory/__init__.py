"""Client of Hearth, a self-hosted memory service for agents. `Client` and `AsyncClient` have the same operations.
Adapters for frameworks are modules of their own: `hearth_memory.langgraph` and so on."""

from .client import AsyncClient, Client
from .cluster import Cluster, find_cluster
from .errors import (
    ConditionFailed,
    Conflict,
    HearthError,
    NotFound,
    OutcomeUnknown,
    Unauthorized,
    Unavailable,
)

__all__ = [
    "AsyncClient",
    "Client",
    "Cluster",
    "ConditionFailed",
    "Conflict",
    "HearthError",
    "NotFound",
    "OutcomeUnknown",
    "Unauthorized",
    "Unavailable",
    "find_cluster",
]
