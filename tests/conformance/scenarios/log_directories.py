"""Two log directories of one node: placement, moves, cordoned directories (KIP-113, KIP-1066)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite.protocol._generated.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from kafkalite.protocol._generated.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
)
from kafkalite.protocol._generated.messages.create_partitions import CreatePartitionsRequest
from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.describe_log_dirs import DescribeLogDirsRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.conformance.batches import batch
from tests.conformance.scenarios.configs import BROKER, DELETE, SET, alter, describe
from tests.conformance.setup import create_topic, fill, produce

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conformance.normalization import Tree
    from tests.conformance.scenario_cluster import ScenarioCluster

CORDONED: Final = "cordoned.log.dirs"
RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
_FIRST, _SECOND = 0, 1
_LARGE: Final = 700_000
"""Two batches of this size exceed `replica.fetch.max.bytes`."""


def _described(*topics: str, indexes: int = 10) -> DescribeLogDirsRequest:
    row = DescribeLogDirsRequest.DescribableLogDirTopic
    return DescribeLogDirsRequest(
        topics=[row(topic=name, partitions=list(range(indexes))) for name in topics]
    )


def _paths(cluster: ScenarioCluster) -> list[str]:
    """Return the paths of the directories, as the broker has them."""
    results = cluster.probe(_described(), 5).results
    return [result.log_dir for result in results]


def _rows(response: Any) -> list[list[tuple[str, int, bool]]]:  # noqa: ANN401 - any response class
    """Return the replicas of each directory: topic, partition and whether it is a future one."""
    return [
        sorted(
            (topic.name, row.partition_index, row.is_future_key)
            for topic in result.topics
            for row in topic.partitions
        )
        for result in response.results
    ]


def _details(response: Any) -> Tree:  # noqa: ANN401 - any response class
    return [
        [
            int(result.error_code),
            result.is_cordoned,
            [
                *sorted(
                    f"{topic.name}-{row.partition_index} size {row.partition_size} "
                    f"lag {row.offset_lag} future {row.is_future_key}"
                    for topic in result.topics
                    for row in topic.partitions
                )
            ],
        ]
        for result in response.results
    ]


def _note(cluster: ScenarioCluster, title: str, *topics: str) -> None:
    """Put the replicas of topics into the transcript, by directory."""
    cluster.record(title, _details(cluster.probe(_described(*topics), 5)))


def _wait(
    cluster: ScenarioCluster,
    *topics: str,
    until: Callable[[list[list[tuple[str, int, bool]]]], bool],
) -> None:
    response = cluster.call_until(
        _described(*topics), 5, lambda found: until(_rows(found)), is_recorded=False
    )
    assert until(_rows(response)), response


def _moves(*moves: tuple[str, str, list[int]]) -> AlterReplicaLogDirsRequest:
    rows = AlterReplicaLogDirsRequest
    return rows(
        dirs=[
            rows.AlterReplicaLogDir(
                path=path,
                topics=[rows.AlterReplicaLogDirTopic(name=name, partitions=indexes)],
            )
            for path, name, indexes in moves
        ]
    )


def _cordon(cluster: ScenarioCluster, value: str | None, *indexes: int) -> None:
    """Set or remove the cordoned directories; wait until those with these indexes are described."""
    operation = DELETE if value is None else SET
    cluster.ask(alter(BROKER, "1", (CORDONED, operation, value)), 1)
    cluster.call_until(
        _described(),
        5,
        lambda found: (
            [index for index, each in enumerate(found.results) if each.is_cordoned] == [*indexes]
        ),
        is_recorded=False,
    )


def _new(name: str, partitions: int = 1, *, replicas: list[int] | None = None) -> Any:  # noqa: ANN401
    assignments = []
    if replicas is not None:
        assignments = [
            CreateTopicsRequest.CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)
        ]
    topic = CreateTopicsRequest.CreatableTopic(
        name=name,
        num_partitions=-1 if assignments else partitions,
        replication_factor=-1 if assignments else 1,
        assignments=assignments,
    )
    return CreateTopicsRequest(topics=[topic], timeout_ms=10_000)


def new_replicas_are_in_the_directory_with_the_fewest(cluster: ScenarioCluster) -> None:
    one, other = f"{cluster.name}-one", f"{cluster.name}-other"
    create_topic(cluster, one, partitions=5)
    _note(cluster, "five partitions", one)
    create_topic(cluster, other)
    _note(cluster, "one partition more", one, other)
    for version in range(1, 6):
        cluster.ask(_described(one, other), version)
    create_topic(cluster, f"{cluster.name}-even", partitions=2)
    _note(cluster, "two partitions more", f"{cluster.name}-even")
    cluster.ask(describe(BROKER, "1", [CORDONED, RATE]), 4)


def replicas_are_moved(cluster: ScenarioCluster) -> None:
    first, second = _paths(cluster)
    name = cluster.name
    create_topic(cluster, name, partitions=2)
    fill(cluster, name, b"a", b"b", b"c")
    cluster.ask(_moves((first, name, [0, 1])), 2)
    _wait(cluster, name, until=lambda rows: rows == [[(name, 0, False), (name, 1, False)], []])
    _note(cluster, "both in the first", name)
    for version in (1, 2):
        path = second if version == 1 else first
        cluster.ask(_moves((path, name, [1])), version)
        _wait_for_one(cluster, name, _SECOND if version == 1 else _FIRST)
    cluster.ask(_moves((second, name, [0, 1])), 2)
    _wait(cluster, name, until=lambda rows: rows == [[], [(name, 0, False), (name, 1, False)]])
    _note(cluster, "both in the second", name)
    cluster.ask(_moves((second, name, [0])), 2)
    cluster.ask(_moves((first, name, [0]), (second, name, [0])), 2)
    _note(cluster, "not moved", name)
    fill(cluster, name, b"d")
    _note(cluster, "after another record", name)


def _wait_for_one(cluster: ScenarioCluster, name: str, directory: int) -> None:
    _wait(cluster, name, until=lambda rows: (name, 1, False) in rows[directory])


def replicas_are_not_moved(cluster: ScenarioCluster) -> None:
    first, second = _paths(cluster)
    name = cluster.name
    create_topic(cluster, name)
    long_name = "n" * 213
    for path in (f"{first}/", "/nowhere", "", "relative"):
        cluster.ask(_moves((path, name, [0])), 2)
    cluster.ask(_moves((second, name, [7]), (second, f"{name}-missing", [0])), 2)
    cluster.ask(_moves((second, long_name, [0, 10])), 2)
    cluster.ask(_moves(), 2)
    cluster.ask(AlterReplicaLogDirsRequest(dirs=[]), 2)


def a_directory_is_preferred_for_a_replica_that_does_not_exist(cluster: ScenarioCluster) -> None:
    first, second = _paths(cluster)
    name = cluster.name
    cluster.ask(_moves((second, name, [0, 1, 2])), 2)
    create_topic(cluster, name, partitions=3)
    _note(cluster, "preferred", name)
    other = f"{name}-other"
    cluster.ask(_moves((second, other, [0])), 2)
    cluster.ask(_moves((first, other, [0, 1, 2])), 2)
    create_topic(cluster, other, partitions=3)
    _note(cluster, "the last one counts", other)


def no_replica_comes_to_a_cordoned_directory(cluster: ScenarioCluster) -> None:
    first, second = _paths(cluster)
    name, existing = f"{cluster.name}-new", f"{cluster.name}-old"
    create_topic(cluster, existing, partitions=2)
    cluster.ask(_moves((first, existing, [0]), (second, existing, [1])), 2)
    _wait(
        cluster,
        existing,
        until=lambda rows: rows == [[(existing, 0, False)], [(existing, 1, False)]],
    )
    _cordon(cluster, second, _SECOND)
    cluster.ask(describe(BROKER, "1", ["log.dir"]), 4)
    for version in range(4, 6):
        cluster.ask(_described(existing), version)
    create_topic(cluster, name, partitions=4)
    _note(cluster, "new", name)
    cluster.ask(_moves((second, existing, [0, 1])), 2)
    cluster.ask(_moves((second, f"{name}-missing", [0])), 2)
    cluster.ask(_moves((second, existing, [5])), 2)
    cluster.ask(_moves((first, existing, [1])), 2)
    _wait(
        cluster,
        existing,
        until=lambda rows: rows == [[(existing, 0, False), (existing, 1, False)], []],
    )
    _cordon(cluster, None)
    _note(cluster, "not cordoned", existing, name)


def a_node_whose_directories_are_cordoned_gets_no_replicas(cluster: ScenarioCluster) -> None:
    first, second = _paths(cluster)
    name = cluster.name
    create_topic(cluster, name)
    for value in (f"{first},{second}", "*"):
        _cordon(cluster, value, _FIRST, _SECOND)
        # The controller knows when the next heartbeat has arrived.
        validated = _new(f"{name}-no")
        validated.validate_only = True
        cluster.call_until(
            validated, 7, lambda found: found.topics[0].error_code, is_recorded=False
        )
        cluster.ask(_new(f"{name}-no"), 7)
        cluster.ask(_new(f"{name}-no", replicas=[1]), 7)
        rows = CreatePartitionsRequest
        for assignments in (None, [rows.CreatePartitionsAssignment(broker_ids=[1])]):
            topic = rows.CreatePartitionsTopic(name=name, count=2, assignments=assignments)
            cluster.ask(rows(topics=[topic], timeout_ms=10_000), 3)
        cluster.ask(_reassigned(name, [1]), 0)
        cluster.ask(_moves((first, name, [0])), 2)
        cluster.ask(produce(name, batch(b"a")), 9)
        _cordon(cluster, None)
    cluster.call_until(_new(f"{name}-yes"), 7, lambda found: not found.topics[0].error_code)


def _reassigned(name: str, replicas: list[int]) -> AlterPartitionReassignmentsRequest:
    rows = AlterPartitionReassignmentsRequest
    partition = rows.ReassignablePartition(partition_index=0, replicas=replicas)
    topic = rows.ReassignableTopic(name=name, partitions=[partition])
    return rows(topics=[topic], timeout_ms=10_000)


def cordoned_directories_are_checked(cluster: ScenarioCluster) -> None:
    first, _ = _paths(cluster)
    for value in (
        "/nowhere",
        f"{first},/nowhere",
        f"*,{first}",
        "",
        f"{first},{first}",
        f"{first}/",
    ):
        cluster.ask(alter(BROKER, "1", (CORDONED, SET, value), validate_only=True), 1)
    cluster.ask(alter(BROKER, "", (CORDONED, SET, first)), 1)
    cluster.ask(alter(BROKER, "1", (RATE, SET, "-1")), 1)
    cluster.ask(alter(BROKER, "1", ("log.dirs", SET, first)), 1)


def a_move_takes_as_long_as_its_rate_says(cluster: ScenarioCluster) -> None:
    first, second = _paths(cluster)
    name = cluster.name
    create_topic(cluster, name)
    cluster.ask(_moves((first, name, [0])), 2)
    _wait(cluster, name, until=lambda rows: rows[_FIRST] == [(name, 0, False)])
    for _ in range(3):
        answer = cluster.probe(produce(name, batch(b"x" * _LARGE)), 9)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    cluster.ask(alter(BROKER, "1", (RATE, SET, "1000")), 1)
    # A broker describes no rates, so another setting shows that this one has arrived.
    _cordon(cluster, second, _SECOND)
    _cordon(cluster, None)
    cluster.ask(_moves((second, name, [0])), 2)
    size = 0

    def has_size(response: Any) -> bool:  # noqa: ANN401 - any response class
        nonlocal size
        for topic in response.results[_SECOND].topics:
            for row in topic.partitions:
                size = row.partition_size
        return size > 0

    cluster.call_until(_described(name), 5, has_size, is_recorded=False)
    _note(cluster, "one batch is copied", name)
    cluster.ask(_described(name), 4)
    cluster.ask(_moves((second, name, [0])), 2)
    _note(cluster, "moved again", name)
    cluster.ask(_moves((first, name, [0])), 2)
    _note(cluster, "moved back", name)
    cluster.ask(_moves((second, name, [0])), 2)
    _wait(cluster, name, until=lambda rows: bool(rows[_SECOND]))
    _note(cluster, "moved after that", name)
    cluster.ask(alter(BROKER, "1", (RATE, DELETE, None)), 1)
    _wait(cluster, name, until=lambda rows: rows == [[], [(name, 0, False)]])
    _note(cluster, "moved at last", name)


def directories_after_a_restart(cluster: ScenarioCluster) -> None:
    """Describe the replicas of all earlier scenarios, and create new ones."""
    names = {
        topic.name
        for result in cluster.probe(DescribeLogDirsRequest(topics=None), 5).results
        for topic in result.topics
    }
    _note(cluster, "restarted", *sorted(names))
    create_topic(cluster, cluster.name, partitions=4)
    _note(cluster, "new", cluster.name)


SCENARIOS: Final = (
    new_replicas_are_in_the_directory_with_the_fewest,
    replicas_are_moved,
    replicas_are_not_moved,
    a_directory_is_preferred_for_a_replica_that_does_not_exist,
    no_replica_comes_to_a_cordoned_directory,
    a_node_whose_directories_are_cordoned_gets_no_replicas,
    cordoned_directories_are_checked,
    a_move_takes_as_long_as_its_rate_says,
)
"""To be played in this order on a new cluster, because replicas of all topics count."""
