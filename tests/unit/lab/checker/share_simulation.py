"""SimulatedShareGroup: deliveries and acknowledgements that follow KIP-932, or do not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kafkalite.lab.checker.share_rows import GROUP_RESOURCE
from kafkalite.protocol._generated.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from kafkalite.protocol._generated.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kafkalite.protocol._generated.messages.metadata import MetadataRequest, MetadataResponse
from kafkalite.protocol._generated.messages.share_acknowledge import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from kafkalite.protocol._generated.messages.share_fetch import (
    ShareFetchRequest,
    ShareFetchResponse,
)
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.shares.acknowledgement import AcknowledgeType
from kafkalite.storage.batch import BatchView
from tests.unit.lab.checker.simulation import TOPIC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.unit.lab.checker.simulation import Peer, SimulatedCluster

_TOPIC_ID: Final = b"orders" + bytes(10)


@dataclass(slots=True)
class _Record:
    """A record's number of deliveries, and whether it can be delivered."""

    deliveries: int = 0
    is_available: bool = True


class SimulatedShareGroup:
    """A share group of one partition."""

    def __init__(self, cluster: SimulatedCluster, group: str, partition: int) -> None:
        self.cluster = cluster
        self.group = group
        self.partition = partition
        self._records: dict[int, _Record] = {}
        self._epochs: dict[str, int] = {}

    def join(self, peer: Peer) -> None:
        """Look up the topic's id, which all requests of the group name."""
        row = MetadataResponse.MetadataResponseTopic(name=TOPIC, topic_id=_TOPIC_ID)
        self.cluster.request(
            peer, ApiKey.METADATA, MetadataRequest(), MetadataResponse(topics=[row])
        )

    def limit(self, peer: Peer, limit: int) -> None:
        """Set the maximum number of deliveries; deliveries do not follow it."""
        config = IncrementalAlterConfigsRequest.AlterableConfig(
            name="share.delivery.count.limit", config_operation=0, value=str(limit)
        )
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
            resource_type=GROUP_RESOURCE, resource_name=self.group, configs=[config]
        )
        self.cluster.request(
            peer,
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            IncrementalAlterConfigsRequest(resources=[resource]),
            IncrementalAlterConfigsResponse(),
        )

    def reset(self, peer: Peer) -> None:
        """Move the start offset of the group to 0."""
        topic = AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic(topic_name=TOPIC)
        self.cluster.request(
            peer,
            ApiKey.ALTER_SHARE_GROUP_OFFSETS,
            AlterShareGroupOffsetsRequest(group_id=self.group, topics=[topic]),
            AlterShareGroupOffsetsResponse(),
        )
        self._records.clear()

    def fetch(
        self, peer: Peer, offsets: Sequence[int] | None = None, *, is_answered: bool = True
    ) -> list[int]:
        """Acquire the named records, or all that are available; return their offsets."""
        if offsets is None:
            offsets = self._available()
        acquired = []
        for offset in offsets:
            record = self._records.setdefault(offset, _Record())
            record.deliveries += 1
            record.is_available = False
            acquired.append(
                ShareFetchResponse.AcquiredRecords(
                    first_offset=offset, last_offset=offset, delivery_count=record.deliveries
                )
            )
        batches = [
            bytes(each)
            for each in self.cluster.logs[self.partition]
            if any(_contains(BatchView(each), offset) for offset in offsets)
        ]
        row = ShareFetchResponse.PartitionData(
            partition_index=self.partition, records=b"".join(batches), acquired_records=acquired
        )
        topic = ShareFetchResponse.ShareFetchableTopicResponse(topic_id=_TOPIC_ID, partitions=[row])
        self.cluster.request(
            peer,
            ApiKey.SHARE_FETCH,
            ShareFetchRequest(
                group_id=self.group,
                member_id=peer.member,
                share_session_epoch=self._next_epoch(peer),
            ),
            ShareFetchResponse(responses=[topic] if batches else []) if is_answered else None,
        )
        return [*offsets]

    def _available(self) -> list[int]:
        """Return the available records that a group with read_committed delivers."""
        return [
            offset
            for view in self.cluster.committed_batches(self.partition)
            for offset in range(view.base_offset, view.last_offset + 1)
            if self._records.get(offset, _Record()).is_available
        ]

    def acknowledge(
        self,
        peer: Peer,
        offsets: Sequence[int],
        kind: AcknowledgeType = AcknowledgeType.ACCEPT,
        *,
        epoch: int | None = None,
    ) -> None:
        """Acknowledge records; released ones are available again."""
        for offset in offsets:
            self._records[offset].is_available = kind is AcknowledgeType.RELEASE
        batches = [
            ShareAcknowledgeRequest.AcknowledgementBatch(
                first_offset=offset, last_offset=offset, acknowledge_types=[int(kind)]
            )
            for offset in offsets
        ]
        asked = ShareAcknowledgeRequest.AcknowledgePartition(
            partition_index=self.partition, acknowledgement_batches=batches
        )
        topic = ShareAcknowledgeRequest.AcknowledgeTopic(topic_id=_TOPIC_ID, partitions=[asked])
        row: Any = ShareAcknowledgeResponse.PartitionData(partition_index=self.partition)
        self.cluster.request(
            peer,
            ApiKey.SHARE_ACKNOWLEDGE,
            ShareAcknowledgeRequest(
                group_id=self.group,
                member_id=peer.member,
                share_session_epoch=self._next_epoch(peer) if epoch is None else epoch,
                topics=[topic],
            ),
            ShareAcknowledgeResponse(
                responses=[
                    ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse(
                        topic_id=_TOPIC_ID, partitions=[row]
                    )
                ]
            ),
        )

    def expire(self, offsets: Sequence[int]) -> None:
        """End the acquisition locks of records."""
        for offset in offsets:
            self._records[offset].is_available = True

    def _next_epoch(self, peer: Peer) -> int:
        epoch = self._epochs.get(peer.member, 0)
        self._epochs[peer.member] = epoch + 1
        return epoch


def _contains(view: BatchView, offset: int) -> bool:
    return view.base_offset <= offset <= view.last_offset
