"""IncarnationCheck: the leader's check of partition epochs in Fetch and ListOffsets (KIP-232)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.partitions.partition import Partition
    from kafkalite.partitions.replicas import ReplicaView

_MAX_REPORTED_REFUSALS = 100
"""The maximum number of refusals of one request that are reported as events."""


class IncarnationCheck:
    """The check of one request, if `kafkalite.partition.epochs` is true."""

    __slots__ = ("_api", "_node_id", "_report", "_reported")

    def __init__(self, node_id: int, api: str, report: Callable[[str, KafkaError], None]) -> None:
        """`report` is called with the topic and the error of each refusal, at most 100 times."""
        self._node_id = node_id
        self._api = api
        self._report = report
        self._reported = 0

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
        partition.check_access(self._node_id, leader_only=leader_only)
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
        if self._reported < _MAX_REPORTED_REFUSALS:
            self._reported += 1
            self._report(partition.topic_name, error)
        raise error
