"""The partitions of members, as descriptions of groups say."""

from __future__ import annotations

from types import SimpleNamespace

from kafkalite.groups import assigned_partitions
from kafkalite.groups.migration.consumer_protocol import encode_named_assignment


def test_only_a_consumer_of_a_classic_group_has_partitions() -> None:
    assignment = encode_named_assignment({"t": [0, 2]}, 0)
    assert assigned_partitions.of_classic_member(assignment) == {"t": {0, 2}}
    assert assigned_partitions.of_classic_member(b"") == {}
    assert assigned_partitions.of_classic_member(b"connector") == {}


def test_the_description_of_a_member_names_topics() -> None:
    rows = [SimpleNamespace(topic_name=name, partitions=[1]) for name in ("t", "u")]
    described = SimpleNamespace(topic_partitions=rows)
    assert assigned_partitions.of_member(described) == {"t": [1], "u": [1]}


def test_tasks_have_the_partitions_of_the_topics_that_their_subtopology_reads() -> None:
    tasks = [
        SimpleNamespace(subtopology_id="0", partitions=[0]),
        SimpleNamespace(subtopology_id="0", partitions=[1]),
        SimpleNamespace(subtopology_id="1", partitions=[5]),
        SimpleNamespace(subtopology_id="unknown", partitions=[0]),
    ]
    inputs = {"0": ["t", "u"], "1": ["u"]}
    assert assigned_partitions.of_tasks(tasks, inputs) == {"t": {0, 1}, "u": {0, 1, 5}}
