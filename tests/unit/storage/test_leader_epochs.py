"""Leader epochs: their start offsets, and the results for OffsetForLeaderEpoch."""

from __future__ import annotations

import pytest

from kafkalite.storage.leader_epochs import LeaderEpochs
from kafkalite.testing.files import MemoryFiles


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs(list(entries))


def test_new_log_has_no_epochs() -> None:
    empty = epochs()
    assert empty.latest == -1
    assert empty.entries == []
    assert empty.end_offset_for(0, 10) == (-1, -1)
    assert empty.epoch_for(0) == -1


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [(-1, (-1, -1)), (0, (0, 10)), (1, (1, 20)), (2, (1, 20)), (4, (4, 30)), (5, (5, 99)),
     (6, (-1, -1))],
)  # fmt: skip
def test_an_epoch_ends_where_the_next_begins(epoch: int, expected: tuple[int, int]) -> None:
    assert epochs((1, 10), (4, 20), (5, 30)).end_offset_for(epoch, 99) == expected


def test_the_leader_epoch_of_an_offset_is_found() -> None:
    known = epochs((1, 10), (4, 20))
    assert [known.epoch_for(offset) for offset in (9, 10, 19, 20, 99)] == [-1, 1, 1, 4, 4]


def test_contradicting_epochs_are_removed() -> None:
    known = epochs((1, 10), (4, 20), (6, 30))
    known.assign(6, 50)
    assert known.entries == [(1, 10), (4, 20), (6, 30)]
    known.assign(7, 20)
    assert known.entries == [(1, 10), (7, 20)]
    known.assign(-1, 90)
    assert known.latest == 7


def test_truncation_of_the_log_truncates_its_epochs() -> None:
    known = epochs((1, 10), (4, 20), (6, 30))
    known.truncate_from_end(30)
    assert known.entries == [(1, 10), (4, 20)]
    known.truncate_from_start(15)
    assert known.entries == [(1, 15), (4, 20)]
    known.truncate_from_start(20)
    assert known.entries == [(4, 20)]
    known.truncate_from_start(5)
    assert known.entries == [(4, 20)]
    known.truncate_from_end(0)
    assert known.entries == []


def test_checkpoint_file_has_kafkas_format() -> None:
    files = MemoryFiles()
    files.makedirs("d")
    known = epochs()
    known.assign(0, 0)
    known.assign(3, 17)
    assert not known.is_saved
    known.save(files, "d/e")
    assert known.is_saved
    assert files.read("d/e") == b"0\n2\n0 0\n3 17\n"
    assert LeaderEpochs.load(files, "d/e").entries == [(0, 0), (3, 17)]


@pytest.mark.parametrize(
    "content", [b"", b"1\n0\n", b"0\n2\n0 0\n", b"0\n1\n0\n", b"0\n1\na b\n", b"\xff\n0\n"]
)
def test_damaged_checkpoint_file_is_ignored(content: bytes) -> None:
    files = MemoryFiles()
    files.makedirs("d")
    files.open("d/e", create=True).append([content])
    assert LeaderEpochs.load(files, "d/e").entries == []
    assert LeaderEpochs.load(files, "d/absent").entries == []
