"""Test runs and workers have clusters of their own in the process of one broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.control.commands.clusters import ListClusters
from kafkalite.testing import Broker
from kafkalite.testing.shared_cluster import cluster_name, shared_address, shared_cluster

if TYPE_CHECKING:
    import pytest


def test_workers_have_clusters_that_end_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_XDIST_TESTRUNUID", "0123456789abcdef")
    with Broker(storage="memory", topics={"orders": 1}, control=True) as broker:
        url = broker.control_url
        monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
        with shared_cluster(url) as first:
            monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw1")
            with shared_cluster(url) as second:
                assert (first.id, second.id) == ("run-0123456789ab-gw0", "run-0123456789ab-gw1")
                assert first.bootstrap_servers != second.bootstrap_servers
                assert broker.cluster(first.id).topics() == ["orders"]
        assert broker._perform(ListClusters()).clusters == ()


def test_runs_have_different_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_XDIST_TESTRUNUID", raising=False)
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    assert cluster_name() != cluster_name()
    assert cluster_name().endswith("-main")
    monkeypatch.setenv("KAFKALITE_CONTROL", "")
    assert shared_address() is None
