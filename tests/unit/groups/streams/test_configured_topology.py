"""ConfiguredTopology: topologies with existing and missing topics."""

from __future__ import annotations

import pytest

from kafkalite.groups.streams.configured_topology import MAX_TASKS, ConfiguredTopology, configure
from kafkalite.groups.streams.status import StatusCode
from kafkalite.groups.streams.tasks import Tasks
from kafkalite.groups.streams.topology import topology_of
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from tests.scenarios.group_coordinator import image_of, topic_image
from tests.scenarios.streams_coordinator import Request, internal, reading

STORE = reading("in", state_changelog_topics=[internal("store", configs={"a": "b"})])


def held(*subtopologies: Request.Subtopology, **topics: int) -> ConfiguredTopology:
    image = image_of(*(topic_image(name, count) for name, count in topics.items()))
    return configure(topology_of(Request.Topology(subtopologies=list(subtopologies))), image)


def test_a_topology_with_all_topics_is_ready() -> None:
    found = held(STORE, store=3, **{"in": 3})
    assert found.is_ready
    assert found.missing_topics == ()
    assert found.subtopologies is not None
    (subtopology,) = found.subtopologies.values()
    assert (subtopology.task_count, subtopology.is_stateful) == (3, True)
    assert [(each.name, each.partitions) for each in subtopology.changelogs] == [("store", 3)]


def test_missing_internal_topics_are_listed() -> None:
    found = held(STORE, **{"in": 3})
    assert found.problem is not None
    assert found.problem.code is StatusCode.MISSING_INTERNAL_TOPICS
    assert "store" in found.problem.detail
    assert [(each.name, each.partitions, each.configs) for each in found.missing_topics] == [
        ("store", 3, (("a", "b"),))
    ]


def test_missing_source_topics_prevent_configuration() -> None:
    found = held(STORE, store=3)
    assert found.problem is not None
    assert found.problem.code is StatusCode.MISSING_SOURCE_TOPICS
    assert (found.subtopologies, found.missing_topics) == (None, ())


def test_an_internal_topic_with_a_wrong_count_is_a_problem() -> None:
    found = held(STORE, store=4, **{"in": 3})
    assert found.problem is not None
    assert found.problem.code is StatusCode.INCORRECTLY_PARTITIONED_TOPICS
    assert found.subtopologies is None


def test_the_hash_covers_the_required_topics() -> None:
    first = held(STORE, store=3, **{"in": 3}).metadata_hash
    assert held(STORE, store=3, other=1, **{"in": 3}).metadata_hash == first
    assert held(STORE, store=3, **{"in": 4}).metadata_hash != first
    assert held(STORE, **{"in": 3}).metadata_hash != first


@pytest.mark.parametrize(
    "tasks", [Tasks(active={"7": {0}}), Tasks(standby={"0": {3}}), Tasks(warmup={"0": {-1}})]
)
def test_unknown_tasks_are_refused(tasks: Tasks) -> None:
    found = held(STORE, store=3, **{"in": 3})
    found.check_tasks(Tasks(active={"0": {0, 2}}))
    found.check_tasks(None)
    with pytest.raises(KafkaError) as refusal:
        found.check_tasks(tasks)
    assert refusal.value.code is ErrorCode.INVALID_REQUEST
    held(STORE, **{"in": 3}).check_tasks(tasks)


def test_too_many_tasks_are_refused() -> None:
    """The cost of a heartbeat is limited even for topologies with very many tasks."""
    per_topic = MAX_TASKS // 16
    enough = [reading("in", name=str(number)) for number in range(16)]
    assert held(*enough, **{"in": per_topic}).is_ready
    with pytest.raises(KafkaError) as refused:
        held(*enough, reading("in", name="one too many"), **{"in": per_topic})
    assert refused.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY


def test_missing_topics_are_reported_before_too_many_tasks() -> None:
    found = held(reading("in", repartition_source_topics=[internal("r", 2**31 - 1)]), **{"in": 1})
    assert found.problem is not None
    assert found.problem.code is StatusCode.MISSING_INTERNAL_TOPICS
