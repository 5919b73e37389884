"""Leader elections on request."""

from __future__ import annotations

from kafkalite.metadata.creation import NewTopic
from kafkalite.metadata.leadership import ElectionType
from kafkalite.protocol.error_codes import ErrorCode
from tests.unit.metadata_world import MetadataWorld, code_of


def test_preferred_election_elects_the_preferred_replica() -> None:
    """Node 1 is missing in one start, and back in the next."""
    first = MetadataWorld(nodes=(1, 2))
    first.controller.create_topics([NewTopic(name="t", assignments=((0, (1, 2)),))])
    world = first.restart(2).restart(1, 2)
    before = world.topic("t").partitions[0]
    assert (before.leader, before.isr) == (2, (1, 2))
    assert world.controller.elect_leaders([("t", 0)], ElectionType.PREFERRED) == [None]
    after = world.topic("t").partitions[0]
    assert after.leader == 1
    assert after.leader_epoch == before.leader_epoch + 1
    assert after.partition_epoch == before.partition_epoch + 1


def test_unnecessary_election_is_refused() -> None:
    world = MetadataWorld()
    world.controller.create_topics([NewTopic(name="t")])
    asked = [("t", 0), ("t", 7), ("nope", 0)]
    for kind in ElectionType:
        outcome = world.controller.elect_leaders(asked, kind)
        assert [code_of(error) for error in outcome] == [
            ErrorCode.ELECTION_NOT_NEEDED,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert [error.message for error in outcome if error is not None] == [
            None,
            "No such partition as t-7",
            "No such topic as nope",
        ]


def test_absent_preferred_replica_cannot_be_elected() -> None:
    first = MetadataWorld(nodes=(1, 2))
    first.controller.create_topics([NewTopic(name="t", assignments=((0, (1, 2)),))])
    (error,) = first.restart(2).controller.elect_leaders([("t", 0)], ElectionType.PREFERRED)
    assert code_of(error) is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
