"""ConsoleSource: what the pages of the console read, from a running broker or from files.

A source answers commands of the control API. So each page can show the HTTP request and the line of
a shell that return the same. What no command returns has methods of its own.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Protocol, TypeVar

from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.control.command_table import Command
    from kafkalite.control.commands.requests import RecordedRequest
    from kafkalite.control.group_status import GroupStatus
    from kafkalite.control.request_filter import RequestFilter

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


class Commit(NamedTuple):
    """An offset that a group committed."""

    topic: str
    partition: int
    offset: int
    at_ms: int
    """Time of the commit in milliseconds since the Unix epoch."""


class CommitHistory(NamedTuple):
    """The latest commits of a group."""

    commits: Sequence[Commit]
    """Oldest first."""
    is_complete: bool
    """Whether there are no earlier ones."""


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

    async def past_group(self, group: str, at_ms: int) -> GroupStatus:
        """Return a group as it was at a time, in milliseconds since the Unix epoch."""

    async def commits(self, group: str) -> CommitHistory:
        """Return the latest commits of a group."""

    async def transaction_moments(self, transactional_id: str) -> Sequence[TransactionMoment]:
        """Return the latest states of a transactional id, oldest first."""

    @property
    def logs_requests(self) -> bool:
        """Whether there is a log of requests."""

    async def latest_requests(self, selected: RequestFilter, limit: int) -> RequestPage:
        """Return the latest requests that are selected, without starting the log."""

    async def request(self, number: int) -> RecordedRequest | None:
        """Return the request with a number; None if the log does not have it any more."""

    def changes(self, subjects: Sequence[Subject]) -> SourceChanges | None:
        """Return what waits for changes, until it is closed; None if the source never changes."""
