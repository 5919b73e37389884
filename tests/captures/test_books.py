"""The books of a real Kafka, compared with what its clients were answered."""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING

import pytest

from kafkalite.capture.reading.captures import ignore
from kafkalite.lab.checker.books import comparison
from kafkalite.lab.checker.books.model import LogKey
from kafkalite.lab.checker.books.reading import read_books
from kafkalite.lab.checker.captured_history import captured_history
from kafkalite.lab.checker.check import check
from kafkalite.lab.checker.history import History
from kafkalite.shares.state import DeliveryState
from kafkalite.transactions.state import TransactionState
from tests.captures.incidents import BOOKS

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalite.lab.checker.findings import Finding


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return a directory with a capture, and with the data directory of a Kafka 4.4.0."""
    with tarfile.open(BOOKS) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def violations(directory: Path) -> list[Finding]:
    """Return what a check finds in the capture and the data directory."""
    history = captured_history([directory / "capture.pcapng"], ignore)
    return [*check(history, read_books([directory / "data"])).violations]


def cut(directory: Path, topic: str) -> None:
    """Remove the last batch of the log that has the most bytes of a topic."""
    segments = directory.glob(f"data/{topic}-*/00000000000000000000.log")
    segment = max(segments, key=lambda path: path.stat().st_size)
    content = segment.read_bytes()
    position = length = 0
    while position < len(content):
        length = 12 + int.from_bytes(content[position + 8 : position + 12], "big")
        position += length
    segment.write_bytes(content[:-length])


def test_the_books_of_kafka_are_read(directory: Path) -> None:
    books = read_books([directory / "data"])
    assert not books.unreadable
    assert {"shop", "mail"} <= books.groups
    states = [each.state.state for each in books.transactions["payments"]]
    assert states[-1] is TransactionState.COMPLETE_ABORT
    markers = [each.is_commit for each in books.logs[LogKey("orders", 0)].batches]
    assert [each for each in markers if each is not None] == [True, False]
    (share,) = books.shares.values()
    assert share.batches or share.start_offset == books.logs[LogKey("shared", 0)].end_offset
    assert {each.delivery_state for each in share.batches} <= {*DeliveryState}
    assert check(History.empty(), books).violations == ()


def test_the_books_have_everything_that_clients_were_answered(directory: Path) -> None:
    assert violations(directory) == []


@pytest.mark.parametrize(
    ("topic", "cause"),
    [("shared", comparison.RECORDS), ("__share_group_state", comparison.ACKNOWLEDGEMENT)],
)
def test_what_is_missing_in_the_books_is_found(directory: Path, topic: str, cause: str) -> None:
    cut(directory, topic)
    causes = {each.cause for each in violations(directory) if each.rule == comparison.NOT_IN_BOOKS}
    assert cause in causes


def test_a_group_that_the_books_do_not_have_is_undecided(directory: Path) -> None:
    for path in directory.glob("data/__consumer_offsets-*/*.log"):
        path.write_bytes(b"")
    history = captured_history([directory / "capture.pcapng"], ignore)
    result = check(history, read_books([directory / "data"]))
    assert result.violations == ()
    assert comparison.UNKNOWN_GROUPS in {each.reason for each in result.undecided}
