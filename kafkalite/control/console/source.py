"""ConsoleSource: what the pages of the console read, from a running broker or from files.

A source answers commands of the control API. So each page can show the HTTP request and the line of
a shell that return the same. What no command returns has methods of its own.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.control.command_table import Command
    from kafkalite.control.commands.requests import RecordedRequest
    from kafkalite.control.console.command_lines import CommandLines
    from kafkalite.control.group_status import GroupStatus
    from kafkalite.control.request_filter import RequestFilter
    from kafkalite.storage.record_format import Headers

Answer = TypeVar("Answer")


class Subject(Enum):
    """What a page shows, and what it is rendered again for."""

    HISTORY = "history"
    """The history of `explain`; all groups, transactions and topics."""
    GROUPS = "groups"
    """Members, epochs and committed offsets of groups, and their history."""
    TRANSACTIONS = "transactions"
    """States of transactional ids."""
    REQUESTS = "requests"
    """The log of requests."""
    FAULTS = "faults"
    """Faults and their counts."""


class TopicRecords(NamedTuple):
    """What a page shows, as a Subject: records and offsets of consecutive partitions of a topic."""

    topic: str
    first: int
    """The index of the first partition."""
    last: int
    """The index of the last partition."""


class Commit(NamedTuple):
    """An offset that a group committed."""

    topic: str
    partition: int
    offset: int
    at_ms: int
    """Time of the commit in milliseconds since the Unix epoch."""


class MemberAssignment(NamedTuple):
    """The partitions that a member of a group had from a time on."""

    at_ms: int
    """Time in milliseconds since the Unix epoch."""
    member_id: str
    epoch: int
    """The epoch of the member, or the generation of a classic group; -1 after its end."""
    partitions: Mapping[str, Sequence[int]]
    """Partitions by topic; of a streams group, those of its tasks."""


class CommitHistory(NamedTuple):
    """The latest commits of a group, and the latest assignments of its members."""

    commits: Sequence[Commit]
    """Oldest first."""
    is_complete: bool
    """Whether there are no earlier commits."""
    assignments: Sequence[MemberAssignment] = ()
    """Oldest first."""


class TransactionMoment(NamedTuple):
    """A state of a transactional id, and when it began."""

    at_ms: int
    """Time in milliseconds since the Unix epoch."""
    state: str
    """State as Kafka's tools show it, such as `Ongoing`."""
    producer_id: int
    producer_epoch: int
    partitions: int
    """Number of partitions of the transaction."""


class Setting(NamedTuple):
    """A setting of a topic."""

    name: str
    value: str | None
    """None for a secret."""
    source: str
    """Where the value comes from, such as `default`."""
    is_changed: bool
    """Whether it is set for this topic."""
    about: str
    """The description in Kafka's documentation."""


class RecordSearch(NamedTuple):
    """The records of a partition that a window shows."""

    topic: str
    partition: int
    start: int | None = None
    """The first offset; by default the last records, and from the first one on for a filter."""
    from_ms: int | None = None
    """In place of `start`: from the first record that is as late; since the Unix epoch."""
    key: bytes | None = None
    """Only records with this key."""
    text: str = ""
    """Only records with this text in key, value or a header; ASCII letters match in any case."""
    limit: int = 50
    """Maximum number of records."""

    @property
    def is_filtered(self) -> bool:
        """Whether it selects by key or text."""
        return self.key is not None or bool(self.text)


class BrowsedRecord(NamedTuple):
    """A record, or a transaction marker, as it is in the log."""

    offset: int
    timestamp_ms: int
    """Milliseconds since the Unix epoch."""
    key: bytes | None
    value: bytes | None
    headers: Headers
    producer_id: int
    """-1 for a producer without idempotence."""
    producer_epoch: int
    leader_epoch: int
    state: str
    """`open`, `aborted`, `committed`, `commit marker`, `abort marker`, `unreadable`, or empty."""
    size: int
    """Number of bytes of key, value and headers; of a batch that is unreadable, its size."""


class RecordWindow(NamedTuple):
    """Consecutive records of a partition that a search selects."""

    records: Sequence[BrowsedRecord]
    """By offset."""
    first_offset: int
    """The first offset of the partition."""
    end_offset: int
    """The offset after the last record that readers see."""
    start: int
    """The offset at which the window begins."""
    next_offset: int
    """The offset after the last record that was examined."""
    examined: int
    """Number of records that were compared with the search."""


class RequestPage(NamedTuple):
    """The latest requests that a filter selects, within the limits of a page."""

    requests: Sequence[RecordedRequest]
    """Newest first."""
    last_number: int
    """Number of the last request that has ended."""
    examined: int
    """Number of requests that were compared with the filter."""
    logged: int
    """Number of requests in the log."""
    next_before: int | None = None
    """The number before which the next page ends; None if all requests were examined."""


class RequestsUntil(NamedTuple):
    """Where a page of requests ends."""

    before: int | None = None
    """Only requests that ended before the one with this number."""
    time_ms: int | None = None
    """Only requests that were received until this time, in milliseconds since the Unix epoch."""


NEWEST: Final = RequestsUntil()


class SourceChanges(Protocol):
    """Waits for changes; it needs no queue, because it does not remember what changed."""

    async def next(self, seconds: float) -> bool:
        """Return whether something changed since the previous call, or changes in this time."""

    def close(self) -> None:
        """Stop watching."""


class ConsoleSource(Protocol):
    """What the pages read; all methods raise ValueError, with one sentence, for what is unknown."""

    @property
    def name(self) -> str:
        """The id of the cluster, or the name of the file."""

    @property
    def is_live(self) -> bool:
        """Whether it changes, and commands can change it."""

    async def ask(self, command: Command[Answer]) -> Answer:
        """Return the answer to a command, after its execution."""

    def command_lines(self, command: Command[Any], url: str) -> Sequence[CommandLines]:
        """Return how to get the same answer in a shell, and from a control endpoint at `url`."""

    async def past_group(self, group: str, at_ms: int) -> GroupStatus:
        """Return a group as it was at a time, in milliseconds since the Unix epoch."""

    async def commits(self, group: str) -> CommitHistory:
        """Return the latest commits and assignments of a group."""

    async def transaction_moments(self, transactional_id: str) -> Sequence[TransactionMoment]:
        """Return the latest states of a transactional id, oldest first."""

    async def settings(self, topic: str) -> Sequence[Setting]:
        """Return the settings of a topic by name."""

    async def records(self, search: RecordSearch) -> RecordWindow:
        """Return the records of a partition that a search selects, up to limits of a page."""

    @property
    def logs_requests(self) -> bool:
        """Whether there is a log of requests."""

    async def latest_requests(
        self, selected: RequestFilter, limit: int, until: RequestsUntil = NEWEST
    ) -> RequestPage:
        """Return the latest requests that are selected, without starting the log."""

    async def requests_at(
        self, selected: RequestFilter, at_ms: int, limit: int
    ) -> Sequence[RecordedRequest]:
        """Return selected requests that were served at a time, newest first."""

    async def find_requests(
        self, selected: RequestFilter, is_match: Callable[[RecordedRequest], bool], limit: int
    ) -> RequestPage:
        """Return the latest requests that are selected, and for which a function returns True.

        All of the log is searched, until a limited number of selected requests were examined.
        """

    async def request(self, number: int) -> RecordedRequest | None:
        """Return the request with a number; None if the log does not have it any more."""

    def changes(self, subjects: Sequence[Subject | TopicRecords]) -> SourceChanges | None:
        """Return what waits for changes, until it is closed; None if the source never changes."""
