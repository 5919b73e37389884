"""The faults of a broker under test, added and removed from the test's own thread."""

from __future__ import annotations

import pytest

from kafkalite.gateway.fault_rules import FaultError, UnknownFaultError
from kafkalite.testing import Broker


def test_faults_are_added_listed_and_removed() -> None:
    with Broker() as broker:
        first = broker.faults.add(api="Produce", error="NOT_ENOUGH_REPLICAS", times=1)
        second = broker.faults.add(group="g", delay_ms=5)
        assert [each.id for each in broker.faults.list()] == [first.id, second.id]
        assert repr(first) == "<fault f1: api=Produce; times=1; error=NOT_ENOUGH_REPLICAS>"
        broker.faults.remove(first.id)
        assert [each.rule for each in broker.faults.list()] == [second.rule]
        broker.faults.clear()
        assert broker.faults.list() == []


def test_a_fault_is_removed_at_the_end_of_its_block() -> None:
    with Broker() as broker:
        with broker.faults.add(api="Produce", disconnect=True) as fault:
            assert (fault.matches, fault.firings) == (0, 0)
            assert len(broker.faults.list()) == 1
        assert broker.faults.list() == []
        fault.remove()
        assert (fault.matches, fault.firings) == (0, 0)


def test_an_invalid_or_unknown_fault_is_rejected() -> None:
    with Broker() as broker:
        with pytest.raises(FaultError, match="action needs at least one of these"):
            broker.faults.add(api="Produce")
        with pytest.raises(FaultError, match="similar names are NOT_ENOUGH_REPLICAS"):
            broker.faults.add(error="NOT_ENOUGH_REPLICA")
        with pytest.raises(UnknownFaultError, match="there is no fault 'f9'; "):
            broker.faults.remove("f9")
    with pytest.raises(RuntimeError, match="not running"):
        broker.faults.list()


def test_a_restarted_broker_has_no_faults() -> None:
    broker = Broker()
    with broker:
        broker.faults.add(disconnect=True)
    with broker:
        assert broker.faults.list() == []


def test_logged_faults_contain_no_control_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Broker(log_level="info") as broker, broker.faults.add(group="g\x1b\n", disconnect=True):
        pass
    added, removed = (line for line in capsys.readouterr().err.splitlines() if " fault " in line)
    assert "fault added" in added
    assert "fault=f1" in added
    assert "fault removed" in removed
    assert added.isprintable()
