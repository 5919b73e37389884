"""A fork at an earlier point equals a fork of a snapshot that was made then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.testing import Broker
from tests.properties.test_restored_states import CONFIG, Work, assert_equal, seen

if TYPE_CHECKING:
    from kafkalite.server.snapshot import Snapshot

UNKNOWN_IN_THE_PAST = ("files", "rules", "random", "history")
START = "manual@2026-03-01T12:00:00Z"


class LastingWork(Work):
    """Work that deletes no records."""

    def __init__(self, broker: Broker, seed: int) -> None:
        super().__init__(broker, seed)
        self.actions = tuple(
            each
            for each in self.actions
            if each not in {self.delete_topic, self.delete_records, self.configure}
        )


def facts(broker: Broker, snapshot: Snapshot) -> dict[str, object]:
    """Return what a fork can have of the past."""
    files = snapshot.cluster.files
    known: dict[str, Any] = seen(Work(broker, 0), snapshot)
    logs = {path: files.read(path) for path in files.paths_below("") if path.endswith(".log")}
    known["logs"] = {path: content for path, content in logs.items() if content}
    return {name: value for name, value in known.items() if name not in UNKNOWN_IN_THE_PAST}


@pytest.mark.parametrize("seed", range(3))
def test_a_fork_at_a_time_equals_a_fork_that_was_made_then(seed: int) -> None:
    with Broker(2, {"a": 2}, CONFIG, storage="memory", seed=5, clock=START) as broker:
        work = LastingWork(broker, seed)
        work.create_internal_topics()
        moments = []
        for _ in range(6):
            work.do(8)
            snapshot = broker.snapshot()
            moments.append((broker.clock.now(), broker.clock.now_ms(), snapshot))
            broker.clock.advance("1ms")
        for time, _, snapshot in moments:
            with broker.fork(snapshot) as then, broker.fork(at=time) as fork:
                assert_equal(facts(then, then.snapshot()), facts(fork, fork.snapshot()))
        (first, _, snapshot), (last, *_) = moments[1], moments[-1]
        with broker.fork(at=last) as fork:
            LastingWork(fork, 9).do(8)
            with broker.fork(snapshot) as then, fork.fork(at=first) as again:
                assert_equal(facts(then, then.snapshot()), facts(again, again.snapshot()))
        broker.restore(broker.snapshot(at=first))
        with broker.fork(snapshot) as then:
            assert_equal(facts(then, then.snapshot()), facts(broker, broker.snapshot()))
