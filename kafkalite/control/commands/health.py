"""Commands that return the health of a broker, the list of commands, and their description."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

from kafkalite import __version__
from kafkalite.config.typed_json import About
from kafkalite.control.command_table import Family, Row, Status, rows
from kafkalite.storage.disk_health import DiskProblem

if TYPE_CHECKING:
    from kafkalite.server.broker import Broker

_OK, _DEGRADED = "ok", "degraded"
_SERVES, _DOES_NOT_SERVE = 200, 503

_MAX_LISTED_PROBLEMS = 100
"""Problems of the disk that are listed; a full disk has one for every partition."""


@dataclass(frozen=True, slots=True)
class CommandList:
    """The commands of the broker."""

    kafkalite: Annotated[str, About("Version of kafkalite.")]
    paths: Annotated[dict[str, str], About("Methods and their purposes by path.")]


@dataclass(frozen=True, slots=True)
class DiskProblemAnswer:
    """A problem of the disk."""

    problem: Annotated[str, About("`refused` operation, `damaged` file or `missing` file.")]
    path: Annotated[str, About("The file or directory.")]
    reason: Annotated[str, About("The reason in a sentence.")]


@dataclass(frozen=True, slots=True)
class Liveness:
    """The status for a health check."""

    status: Annotated[str, About("`ok`; `degraded` with the HTTP status 503.")]


@dataclass(frozen=True, slots=True)
class Health:
    """The health of the broker, and its addresses."""

    status: Annotated[str, About("`ok`; `degraded` if the disk has problems.")]
    version: Annotated[str, About("Version of kafkalite.")]
    cluster_id: Annotated[str, About("Id of the cluster.")]
    seed: Annotated[
        int | None, About("Seed of all random values; null if they differ in each run.")
    ]
    bootstrap_servers: Annotated[str, About("Bootstrap addresses of the first listener.")]
    listeners: Annotated[dict[str, str], About("Bootstrap addresses by listener name.")]
    disk: Annotated[
        tuple[DiskProblemAnswer, ...],
        About(f"Up to {_MAX_LISTED_PROBLEMS} problems."),
    ]


@dataclass(frozen=True, slots=True)
class ListCommands:
    """List the commands."""

    async def perform(self, broker: Broker) -> CommandList:
        """Return the commands by path."""
        del broker
        paths: dict[str, list[str]] = {}
        for row in rows():
            example = "" if row.example is None else f" {json.dumps(row.example)}"
            line = f"{row.method}{example}: {row.purpose}"
            paths.setdefault(row.documented_path, []).append(line)
        return CommandList(__version__, {path: " ".join(each) for path, each in paths.items()})


@dataclass(frozen=True, slots=True)
class DescribeCommands:
    """Return the OpenAPI document of this API."""

    async def perform(self, broker: Broker) -> dict[str, Any]:
        """Return the document."""
        from kafkalite.control.openapi import openapi_document  # noqa: PLC0415 - rarely used

        del broker
        return openapi_document()


@dataclass(frozen=True, slots=True)
class ShowLiveness:
    """Return whether the broker serves, for a health check. It needs no token.

    The HTTP status is that of `GET /v1/health`.
    """

    async def perform(self, broker: Broker) -> Liveness:
        """Return the status."""
        return Liveness(_OK if _status(broker) == _SERVES else _DEGRADED)


@dataclass(frozen=True, slots=True)
class ShowHealth:
    """Return the health of the broker.

    The HTTP status is 503 if the disk refuses writes or files are missing, else 200.
    """

    async def perform(self, broker: Broker) -> Health:
        """Return status, addresses and problems of the disk."""
        failures = broker.disk_failures
        return Health(
            status=_DEGRADED if failures else _OK,
            version=__version__,
            cluster_id=broker.cluster_id,
            seed=broker.seed,
            bootstrap_servers=broker.bootstrap_servers,
            listeners=dict(broker.bootstrap_by_listener()),
            disk=tuple(
                DiskProblemAnswer(each.problem.value, str(each.path), each.reason)
                for each in failures[:_MAX_LISTED_PROBLEMS]
            ),
        )


def _status(broker: Broker) -> int:
    """Return the HTTP status of a health check.

    Orchestrators restart or isolate a broker whose probe fails. That is right if it cannot store
    records. A damaged file affects one log only, and a restart would not repair it.
    """
    is_serving = all(each.problem is DiskProblem.DAMAGED for each in broker.disk_failures)
    return _SERVES if is_serving else _DOES_NOT_SERVE


_STATUS: Final = Status((_SERVES, _DOES_NOT_SERVE), lambda broker, _: _status(broker))

COMMANDS = Family(
    (
        Row(ListCommands, CommandList, "GET", "/v1"),
        Row(DescribeCommands, dict, "GET", "/v1/openapi.json"),
        Row(ShowLiveness, Liveness, "GET", "/v1/live", status=_STATUS, needs_token=False),
        Row(ShowHealth, Health, "GET", "/v1/health", status=_STATUS),
    )
)
