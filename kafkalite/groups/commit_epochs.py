"""CommitEpochs: the coordinator's check of the epochs in an offset commit (KIP-232).

The check is that of the KIP's first version. Its final version has no check in the coordinator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import Event
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkalite.groups.group import GroupId, OffsetAndMetadata
    from kafkalite.groups.offsets import OffsetToCommit

_MAX_NAMED_PARTITIONS = 5
"""The maximum number of partitions that an event names."""


class _Refusal(NamedTuple):
    partition: str
    received_epoch: int
    committed_epoch: int


class CommitEpochs:
    """The check of one request against the committed offsets of its group."""

    __slots__ = ("_accepted", "_committed", "_refusals")

    def __init__(self, committed: Mapping[str, Mapping[int, OffsetAndMetadata]]) -> None:
        self._committed = committed
        self._accepted: dict[tuple[str, int], OffsetToCommit] = {}
        """The offsets that this request commits: a request may have a partition twice."""
        self._refusals: dict[ErrorCode, list[_Refusal]] = {}

    def check(self, offset: OffsetToCommit) -> ErrorCode:
        """Return the error code for an offset with an incarnation epoch.

        INVALID_PARTITION_EPOCH if the incarnation epoch is smaller than that of the last committed
        offset. INVALID_LEADER_EPOCH if the incarnation epochs are equal, and the leader epoch is
        smaller. An epoch of -1 is not compared.
        """
        key = (offset.topic, offset.partition)
        committed: OffsetToCommit | OffsetAndMetadata | None = self._accepted.get(key)
        if committed is None:
            committed = self._committed.get(offset.topic, {}).get(offset.partition)
        if committed is not None:
            epochs = (offset.incarnation_epoch, committed.incarnation_epoch)
            if epochs[0] < epochs[1]:
                return self._refuse(ErrorCode.INVALID_PARTITION_EPOCH, key, *epochs)
            if epochs[0] == epochs[1] and 0 <= offset.leader_epoch < committed.leader_epoch:
                epochs = (offset.leader_epoch, committed.leader_epoch)
                return self._refuse(ErrorCode.INVALID_LEADER_EPOCH, key, *epochs)
        self._accepted[key] = offset
        return ErrorCode.NONE

    def _refuse(
        self, code: ErrorCode, key: tuple[str, int], received_epoch: int, committed_epoch: int
    ) -> ErrorCode:
        refusal = _Refusal(f"{key[0]}-{key[1]}", received_epoch, committed_epoch)
        self._refusals.setdefault(code, []).append(refusal)
        return code

    def refused_events(self, group_id: GroupId, api: str) -> Iterable[Event]:
        """Yield an event for each error code, with the epochs of the refused partitions."""
        for code, refusals in self._refusals.items():
            yield _refused_event(group_id, api, code, refusals)


def _refused_event(
    group_id: GroupId, api: str, code: ErrorCode, refusals: Sequence[_Refusal]
) -> Event:
    name = "partition epoch" if code is ErrorCode.INVALID_PARTITION_EPOCH else "leader epoch"
    named = refusals[:_MAX_NAMED_PARTITIONS]
    comparisons = ", ".join(
        f"{each.partition} ({each.received_epoch} < {each.committed_epoch})" for each in named
    )
    others = f" and {len(refusals) - len(named)} more" if len(refusals) > len(named) else ""
    text = (
        f"{api} of {comparisons}{others} refused: the {name} is smaller than that of the last "
        "committed offset"
    )
    facts = {
        "api": api,
        "error": code.name,
        "rule": name.replace(" ", "-"),
        "partitions": [each.partition for each in named],
        "received_epochs": [each.received_epoch for each in named],
        "committed_epochs": [each.committed_epoch for each in named],
        "count": len(refusals),
    }
    return Event(group_id, "refused", text, facts)
