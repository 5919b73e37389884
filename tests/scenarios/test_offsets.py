"""Scenarios: offsets are committed, fetched, deleted, and expire."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.metadata.image import MetadataDelta
from kafkalite.protocol.error_codes import ErrorCode
from tests.scenarios.group_coordinator import (
    ManualGroupCoordinator,
    answered,
    topic_image,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

HOUR_MS = 3_600_000
SWEEP_MS = 600_000


def test_offsets_exist_after_a_restart() -> None:
    coordinator = ManualGroupCoordinator()
    coordinator.commit({("t", 0): 5})
    coordinator.commit({("t", 0): 6, ("t", 1): 1}, retention_ms=1_000)
    again = coordinator.restarted()
    assert again.committed() == {("t", 0): 6, ("t", 1): 1}
    assert dict(again.machine.offsets.offsets_to_fetch("g", None, -1)) == dict(
        coordinator.machine.offsets.offsets_to_fetch("g", None, -1)
    )


def test_offsets_of_subscribed_topics_are_not_deleted() -> None:
    coordinator = ManualGroupCoordinator(topics=[topic_image("t", 4), topic_image("u", 1)])
    coordinator.commit({("t", 0): 5, ("u", 0): 6})
    coordinator.stable(None)
    deleted = answered(
        coordinator.shard.write(
            lambda machine, _: machine.offsets.delete("g", [("t", 0), ("u", 0), ("u", 0)])
        )
    )
    assert deleted == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE, ErrorCode.NONE]
    assert coordinator.committed() == {("t", 0): 5}


def test_offsets_of_a_deleted_topic_are_deleted_but_not_those_of_a_new_topic() -> None:
    coordinator = ManualGroupCoordinator(topics=[topic_image("t", 4), topic_image("u", 1)])
    coordinator.commit({("t", 0): 5, ("u", 0): 6})
    coordinator.commit({("t", 1): 7}, group="other")
    old = coordinator.topics["t"]
    coordinator.topics["t"] = topic_image("t", 4, b"successor-of-t-.")
    coordinator.commit({("t", 2): 8}, group="other")
    coordinator.show(MetadataDelta(deleted=(old,), created=(coordinator.topics["t"],)))
    assert coordinator.committed() == {("u", 0): 6}
    assert coordinator.committed("other") == {("t", 2): 8}


def test_deleting_offsets_of_a_deleted_topic_is_retried() -> None:
    coordinator = ManualGroupCoordinator(topics=[topic_image("t", 4), topic_image("u", 1)])
    coordinator.commit({("t", 0): 5, ("u", 0): 6})
    coordinator.log.next_error = OSError(28, "disk full")
    coordinator.show(MetadataDelta(deleted=(coordinator.topics["t"],)))
    assert coordinator.committed() == {("t", 0): 5, ("u", 0): 6}
    coordinator.clock.advance(0)
    assert coordinator.committed() == {("u", 0): 6}


def test_many_offsets_are_deleted_in_several_batches() -> None:
    coordinator = ManualGroupCoordinator(topics=[topic_image("t", 5_000), topic_image("u", 5_000)])
    for topic in ("t", "u"):
        offsets_to_commit = dict.fromkeys(((topic, index) for index in range(5_000)), 1)
        coordinator.commit(offsets_to_commit, retention_ms=HOUR_MS)
    sizes: list[int] = []
    append = coordinator.log.append

    def measured(records: Sequence[tuple[bytes | None, bytes | None]], now_ms: int) -> int:
        sizes.append(len(records))
        return append(records, now_ms)

    coordinator.log.append = measured  # type: ignore[method-assign]
    coordinator.show(MetadataDelta(deleted=(coordinator.topics["t"],)))
    coordinator.clock.advance(100)
    assert len(coordinator.committed()) == 5_000
    coordinator.clock.advance(HOUR_MS + SWEEP_MS)
    assert (coordinator.state(), coordinator.committed()) == (None, {})
    # The last offsets and the group itself are in the same batch.
    assert max(sizes) == 501


def test_an_empty_group_without_commits_is_deleted_at_the_next_check() -> None:
    coordinator = ManualGroupCoordinator()
    (leader,) = coordinator.stable(None)
    coordinator.clock.advance(SWEEP_MS // 2)
    coordinator.leave((leader, None))
    coordinator.clock.advance(SWEEP_MS)
    assert coordinator.state() is None
