"""A cluster of a test run in the process of a broker that serves many runs."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING
from uuid import uuid4

from kafkalite.control.client import ControlClient
from kafkalite.control.commands.clusters import ForkCluster, StopCluster
from kafkalite.control.endpoint import (
    CONTROL_TOKEN_VARIABLE,
    CONTROL_VARIABLE,
    find_endpoint,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.control.commands.clusters import ClusterStatus


def shared_address() -> str | None:
    """Return the address of the control API of a broker that other runs use; None without one."""
    return os.environ.get(CONTROL_VARIABLE) or None


def cluster_name() -> str:
    """Return a name that no other run and no other worker of pytest-xdist has."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or uuid4().hex
    return f"run-{run[:12]}-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"


@contextmanager
def shared_cluster(address: str) -> Iterator[ClusterStatus]:
    """Start a cluster in the process of the broker at `address`, and stop it at the end.

    Raises ControlError, EndpointError or AddressError if the broker does not do so.
    """
    token = os.environ.get(CONTROL_TOKEN_VARIABLE) or None
    client = ControlClient(find_endpoint(address, token))
    cluster = client.send(ForkCluster(name=cluster_name()))
    try:
        yield cluster
    finally:
        client.send(StopCluster(cluster.id))
