"""Batches in answers to Fetch, and the fetch positions of fetch sessions (KIP-227)."""

# ruff: noqa: ANN401 - messages of any API
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.uuids import ZERO_UUID
from kafkalite.storage.batch import BatchView, ControlKind, split_batches
from kafkalite.storage.record_format import MalformedRecordsError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NEW_SESSION_EPOCHS: Final = (0, -1)
"""Session epochs of requests that name all partitions: the first and the last of a session."""

Topic = bytes | str
"""A topic as a message names it: its id in newer versions, its name in older ones."""


class FetchedBatch(NamedTuple):
    """A batch in an answer."""

    view: BatchView
    is_aborted: bool
    """Whether the answer lists its transaction among the aborted ones."""


class UnreadableBatchesError(Exception):
    """The batches of a partition are damaged, or have format 0 or 1."""


def topic_of(row: Any) -> Topic:
    """Return the id or name of the topic in a row of a message."""
    topic_id: bytes | None = getattr(row, "topic_id", None)
    if topic_id and topic_id != ZERO_UUID:
        return topic_id
    name: str = getattr(row, "topic", None) or getattr(row, "name", None) or ""
    return name


def batches_of(records: Any) -> Sequence[BatchView]:
    """Return the batches of a partition; raises `UnreadableBatchesError`.

    A tuple has the batches already, without their records.
    """
    if isinstance(records, tuple):
        return records
    try:
        return split_batches(records) if records else ()
    except KafkaError as error:
        raise UnreadableBatchesError from error


def fetched_batches(row: Any) -> Iterator[FetchedBatch]:
    """Yield the batches of a partition in an answer to Fetch, as a consumer interprets them.

    A transaction is aborted from the offset in the list of aborted transactions up to its marker.
    Raises `UnreadableBatchesError`.
    """
    listed = sorted(
        ((each.first_offset, each.producer_id) for each in row.aborted_transactions or ()),
        reverse=True,
    )
    aborted: set[int] = set()
    for view in batches_of(row.records):
        while listed and listed[-1][0] <= view.last_offset:
            aborted.add(listed.pop()[1])
        yield FetchedBatch(view, view.is_transactional and view.producer_id in aborted)
        if view.is_control and is_commit_marker(view) is False:
            aborted.discard(view.producer_id)


def is_commit_marker(view: BatchView) -> bool | None:
    """Return whether a control batch commits its transaction; None for other control records.

    Raises `UnreadableBatchesError`.
    """
    try:
        marker = view.control_marker()
    except MalformedRecordsError as error:
        raise UnreadableBatchesError from error
    return None if marker is None else marker.kind is ControlKind.COMMIT


class FetchSessions:
    """The fetch positions of all sessions, which later requests of a session do not repeat."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[str, int], dict[tuple[Topic, int], int]] = {}

    def positions(
        self, broker: str, request: Any, response: Any
    ) -> dict[tuple[Topic, int], int] | None:
        """Return the positions of a request; None if its session began before the history."""
        named = {
            (topic_of(topic), row.partition): row.fetch_offset
            for topic in request.topics
            for row in topic.partitions
        }
        if request.session_epoch in NEW_SESSION_EPOCHS:
            self._sessions.pop((broker, request.session_id), None)
            if response.session_id:
                self._sessions[broker, response.session_id] = named
            return named
        session = self._sessions.get((broker, request.session_id))
        if session is None:
            return None
        session.update(named)
        for topic in request.forgotten_topics_data or ():
            for number in topic.partitions:
                session.pop((topic_of(topic), number), None)
        return session
