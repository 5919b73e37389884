"""The command that checks which offset a group commits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from kafkalite.config.typed_json import About
from kafkalite.control.command_table import CommandError, Family, Row, Status, running_cluster
from kafkalite.control.commands.explain import lines_of_failure
from kafkalite.control.commands.requests import MET, UNMET
from kafkalite.control.group_reader import UnknownGroupError, find_group, group_if_exists
from kafkalite.control.topic_records import no_partition_text, topic_of
from kafkalite.control.waiting import MAX_WAIT_MS, becomes_true

if TYPE_CHECKING:
    from kafkalite.cluster.cluster import Cluster
    from kafkalite.server.broker import Broker

DEFAULT_WITHIN_MS: Final = 5_000
_MAX_OFFSET: Final = 2**63 - 1
_MAX_HISTORY_LINES: Final = 10


@dataclass(frozen=True, slots=True)
class CommitExpectation:
    """Whether a group committed the offset. The HTTP status is 409 if it did not."""

    met: Annotated[bool, About("Whether the expectation was met.")]
    offset: Annotated[
        int | None, About("The committed offset; null if the group has none for the partition.")
    ]
    text: Annotated[str, About("The result in words, with the history of the group.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectCommit:
    """Check that the committed offset of a group is this one, and wait until it is.

    Without `offset`, any committed offset meets the expectation.
    """

    group: Annotated[str, About("id of the group", metavar="ID")]
    topic: Annotated[str, About("name of the topic", needs="the name of a topic")]
    partition: Annotated[int, About("index of the partition", minimum=0, maximum=2**31 - 1)] = 0
    offset: Annotated[
        int | None, About("the expected offset [any]", minimum=0, maximum=_MAX_OFFSET)
    ] = None
    within_ms: Annotated[
        int,
        About(
            f"time limit in milliseconds, in real time [{DEFAULT_WITHIN_MS}]",
            minimum=0,
            maximum=MAX_WAIT_MS,
        ),
    ] = DEFAULT_WITHIN_MS

    async def perform(self, broker: Broker) -> CommitExpectation:
        """Return the result; raises CommandError for an unknown topic or partition."""
        cluster = running_cluster(broker)
        partitions = len(topic_of(cluster, self.topic).partitions)
        if self.partition >= partitions:
            raise CommandError(no_partition_text(self.topic, self.partition, partitions))
        is_met = await becomes_true(
            lambda: self._is_met(cluster), cluster.groups.watchers, self.within_ms
        )
        offset = self._committed(cluster)
        expected = "an offset" if self.offset is None else f"offset {self.offset}"
        found = "none" if offset is None else f"{offset}"
        text = (
            f"expected group {self.group!r} to commit {expected} of {self.topic}-{self.partition}"
        )
        lines = [f"{text}; the committed offset is {found}"]
        if not is_met:
            lines[0] += self._unknown_group(cluster)
            history = broker.history.about(self.group, _MAX_HISTORY_LINES)
            lines += lines_of_failure(history)
        return CommitExpectation(is_met, offset, "\n".join(lines))

    def _unknown_group(self, cluster: Cluster) -> str:
        """Return the end of a sentence if the group does not exist."""
        try:
            find_group(cluster, self.group)
        except UnknownGroupError as error:
            return f": {error}"
        return ""

    def _committed(self, cluster: Cluster) -> int | None:
        found = group_if_exists(cluster, self.group)
        if found is None:
            return None
        stored = found.shard.machine.offsets.of_group(self.group)
        committed = stored.get(self.topic, {}).get(self.partition)
        return None if committed is None else committed.offset

    def _is_met(self, cluster: Cluster) -> bool:
        offset = self._committed(cluster)
        return offset is not None and self.offset in {None, offset}


COMMANDS = Family(
    (
        Row(
            ExpectCommit,
            CommitExpectation,
            "POST",
            "/v1/groups/{group}/expect-commit",
            example={"topic": "orders", "partition": 0, "offset": 5, "within_ms": 100},
            status=Status((MET, UNMET), lambda _, answer: MET if answer.met else UNMET),
        ),
    )
)
