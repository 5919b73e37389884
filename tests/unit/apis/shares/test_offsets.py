"""DescribeShareGroupOffsets, AlterShareGroupOffsets and DeleteShareGroupOffsets as bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.protocol._generated.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
)
from kafkalite.protocol._generated.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
)
from kafkalite.protocol._generated.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from tests.cluster.share_groups import ShareGroupCluster

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

DescribedGroup = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
DescribedTopic = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic
AlteredTopic = AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic
AlteredPartition = AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition
DeletedTopic = DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[ShareGroupCluster]:
    wire = ShareGroupCluster(tmp_path)
    yield wire
    wire.end()


def described(
    wire: ShareGroupCluster,
    topics: Mapping[str, Sequence[int]] | None = None,
    *,
    group: str = "g",
    version: int = 1,
    node: int = 1,
) -> Any:  # noqa: ANN401 - any response class
    rows = None
    if topics is not None:
        rows = [DescribedTopic(topic_name=t, partitions=list(p)) for t, p in topics.items()]
    asked = DescribedGroup(group_id=group, topics=rows)
    (group_result,) = wire.ask(
        DescribeShareGroupOffsetsRequest(groups=[asked]), version, node
    ).groups
    return group_result


def offsets_of(described_group: Any) -> dict[str, list[tuple[int, int, int]]]:  # noqa: ANN401
    """Return partition, start offset and lag by topic."""
    return {
        topic.topic_name: [(p.partition_index, p.start_offset, p.lag) for p in topic.partitions]
        for topic in described_group.topics
    }


def alter(
    wire: ShareGroupCluster, offsets: Mapping[str, Mapping[int, int]], group: str = "g"
) -> Any:  # noqa: ANN401
    topics = [
        AlteredTopic(
            topic_name=name,
            partitions=[
                AlteredPartition(partition_index=index, start_offset=offset)
                for index, offset in partitions.items()
            ],
        )
        for name, partitions in offsets.items()
    ]
    return wire.ask(AlterShareGroupOffsetsRequest(group_id=group, topics=topics), 0)


def delete(wire: ShareGroupCluster, *topics: str, group: str = "g") -> Any:  # noqa: ANN401
    rows = [DeletedTopic(topic_name=name) for name in topics]
    return wire.ask(DeleteShareGroupOffsetsRequest(group_id=group, topics=rows), 0)


def codes(response: Any) -> dict[str, dict[int, int]]:  # noqa: ANN401
    return {
        topic.topic_name: {p.partition_index: p.error_code for p in topic.partitions}
        for topic in response.responses
    }


def test_a_partition_without_a_log_has_no_lag(
    wire: ShareGroupCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire.create("t")
    alter(wire, {"t": {0: 0}})
    monkeypatch.setattr(wire.cluster.partitions, "topic", lambda _: None)
    ((row,),) = (topic.partitions for topic in described(wire).topics)
    assert row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_unknown_offsets_are_described_as_unknown(wire: ShareGroupCluster) -> None:
    topic_id = wire.create("t")
    assert described(wire).topics == []
    assert offsets_of(described(wire, {})) == {}
    group_result = described(wire, {"t": [0, 9]}, group="missing")
    assert group_result.topics[0].topic_id == topic_id
    assert offsets_of(group_result) == {"t": [(0, -1, -1), (9, -1, -1)]}
    for asked, group in (({"t": []}, "g"), ({"t": [0]}, "")):
        assert described(wire, asked, group=group).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_an_error_of_the_share_coordinator_is_returned(
    wire: ShareGroupCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire.create("t")
    wire.join_and_leave("t")

    def refuse(*_: object, **__: object) -> None:
        raise KafkaError(ErrorCode.FENCED_STATE_EPOCH, "too late")

    monkeypatch.setattr(wire.cluster.shares, "initialize_state", refuse)
    monkeypatch.setattr(wire.cluster.shares, "delete_state", refuse)
    assert codes(alter(wire, {"t": {0: 0}})) == {"t": {0: ErrorCode.FENCED_STATE_EPOCH}}
    (row,) = delete(wire, "t").responses
    assert row.error_code == ErrorCode.FENCED_STATE_EPOCH
    monkeypatch.undo()
    (row,) = delete(wire, "t").responses
    assert (row.topic_name, row.error_code) == ("t", ErrorCode.NONE)


def test_only_the_group_coordinator_answers(tmp_path: Path) -> None:
    wire = ShareGroupCluster(tmp_path, nodes=2)
    codes_of_nodes = {described(wire, node=node).error_code for node in (1, 2)}
    assert codes_of_nodes == {ErrorCode.NONE, ErrorCode.NOT_COORDINATOR}
    wire.end()


def test_without_share_groups_every_group_has_an_error(
    wire: ShareGroupCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> None:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)

    monkeypatch.setattr("kafkalite.apis.shares.offsets.check_share_groups_enabled", refuse)
    assert described(wire).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert alter(wire, {}).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert delete(wire).error_code == ErrorCode.UNSUPPORTED_VERSION
