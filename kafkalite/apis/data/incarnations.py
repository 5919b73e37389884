"""IncarnationCheck: the leader's check of partition epochs in Fetch and ListOffsets (KIP-232)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.gateway.refusals import report_refusal
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from kafkalite.gateway.call import Call
    from kafkalite.partitions.partition import Partition
    from kafkalite.partitions.replicas import ReplicaView

_MAX_REPORTED_REFUSALS = 100
"""The maximum number of refusals of one request that are reported as events."""


class IncarnationCheck:
    """The check of one request, if `kafkalite.partition.epochs` is true."""

    __slots__ = ("_api", "_call", "_reported")

    def __init__(self, call: Call, api: str) -> None:
        self._call = call
        self._api = api
        self._reported = 0

    @classmethod
    def of(cls, call: Call, api: str) -> IncarnationCheck | None:
        """Return the check of a request, or None if the broker does not use partition epochs."""
        return cls(call, api) if call.node.config.uses_partition_epochs else None

    def check(
        self, partition: Partition | ReplicaView, received_epoch: int, *, leader_only: bool
    ) -> None:
        """Raise KafkaError INVALID_PARTITION_EPOCH if the client expects another incarnation.

        A negative epoch is not checked. Another node than the leader, or a replica if `leader_only`
        is false, refuses with the error of `check_access`: it may not know the latest incarnation.
        The refusal is reported for `explain`.
        """
        current_epoch = partition.incarnation_epoch
        if received_epoch < 0 or received_epoch == current_epoch:
            return
        partition.check_access(self._call.node.id, leader_only=leader_only)
        error = KafkaError(
            ErrorCode.INVALID_PARTITION_EPOCH,
            f"{self._api} of {partition.name} refused: the client expects partition epoch "
            f"{received_epoch}, but the partition has {current_epoch}",
            {
                "rule": "partition-epoch",
                "partition": partition.name,
                "received_epoch": received_epoch,
                "current_epoch": current_epoch,
            },
        )
        self._report(partition.topic_name, error)
        raise error

    def _report(self, topic: str, error: KafkaError) -> None:
        if self._reported < _MAX_REPORTED_REFUSALS:
            self._reported += 1
            report_refusal(self._call, self._api, topic, error, kind=Entity.TOPIC)
