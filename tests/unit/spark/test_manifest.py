"""What is read anew and what is kept; how files are shared out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.columnar.captured import Rest
from kafkalite.columnar.parts import FilePart
from kafkalite.spark.manifest import Lot, Manifest, Piece, lots, pieces, plan
from kafkalite.spark.places import InputFile


def file(name: str, size: int = 10, modified_ns: int = 1) -> InputFile:
    return InputFile(url=name, size=size, modified_ns=modified_ns)


AB = Lot(inputs=(file("a"), file("b")), requests=("requests/1",), problems=("problems/1",), rows=7)
C = Lot(inputs=(file("c"),), requests=("requests/2",), loose=("loose/2",), quarantined=("c",))
DONE = Manifest(decoder="1", run=3, lots=(AB, C), stitched=Lot(inputs=(), requests=("requests/3",)))


def test_what_is_kept_is_read_back_as_it_was() -> None:
    assert Manifest.from_json(DONE.to_json(), "1") == DONE
    assert Manifest.from_json(None, "1") == Manifest(decoder="1")


def test_what_another_decoder_wrote_counts_for_nothing_but_its_run() -> None:
    assert Manifest.from_json(DONE.to_json(), "2") == Manifest(decoder="2", run=3)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"form": 1}', "null"])
def test_what_is_no_manifest_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - json's own error is one too
        Manifest.from_json(text, "1")


def test_all_that_was_written_is_known() -> None:
    written = {"requests/1", "problems/1", "requests/2", "loose/2", "requests/3"}
    assert DONE.outputs == written


def test_nothing_new_is_nothing_to_do() -> None:
    found = plan(DONE, [file("a"), file("b"), file("c")])
    assert found.is_empty
    assert found.keep == (AB, C)


def test_only_new_files_are_read() -> None:
    found = plan(DONE, [file("a"), file("b"), file("c"), file("d")])
    assert (found.keep, found.drop, found.read) == ((AB, C), (), (file("d"),))


@pytest.mark.parametrize("changed", [file("b", size=11), file("b", modified_ns=2)])
def test_a_changed_file_takes_its_lot_with_it(changed: InputFile) -> None:
    found = plan(DONE, [file("a"), changed, file("c")])
    assert (found.keep, found.drop, found.read) == ((C,), (AB,), (file("a"), changed))


def test_what_a_vanished_file_gave_goes_too_unless_it_is_to_be_kept() -> None:
    left = [file("a"), file("c")]
    found = plan(DONE, left)
    assert (found.keep, found.drop, found.read) == ((C,), (AB,), (file("a"),))
    assert plan(DONE, left, keep_vanished=True).is_empty


def test_small_files_share_a_lot_and_a_large_one_has_its_own() -> None:
    files = [file("a", 3), file("b", 3), file("c", 3), file("d", 50), file("e", 1)]
    shared = [[each.url for each in lot] for lot in lots(files, 1, 8)]
    assert shared == [["a", "b"], ["c"], ["d"], ["e"]]


def test_there_are_lots_enough_for_all_tasks() -> None:
    files = [file(str(number), 10) for number in range(8)]
    assert [len(lot) for lot in lots(files, 4, 1_000)] == [2, 2, 2, 2]


def test_a_part_is_a_lot_by_itself_and_as_large_as_it_is() -> None:
    parts = [
        FilePart(start=start, stop=stop, magic=b"", rest=Rest())
        for start, stop in ((0, 40), (40, None))
    ]
    files = [file("a", 3), file("b", 50), file("c", 3)]
    shared = pieces(files, {"b": parts, "c": []}, 1, 8)
    assert shared == [
        (Piece(files[1], parts[0]),),
        (Piece(files[1], parts[1]),),
        (Piece(files[0]), Piece(files[2])),
    ]
    assert [sum(piece.size for piece in lot) for lot in shared] == [40, 10, 6]


def test_a_file_that_was_read_in_parts_is_read_anew_as_a_whole() -> None:
    done = Manifest(decoder="1", lots=(Lot(inputs=(file("a"),)), Lot(inputs=(file("a"),)), C))
    found = plan(done, [file("a", size=11), file("c")])
    assert (found.keep, found.drop, found.read) == ((C,), done.lots[:2], (file("a", size=11),))


@given(st.lists(st.integers(0, 300), max_size=30), st.integers(1, 9), st.integers(1, 400))
def test_every_file_is_in_one_lot_in_its_order(
    sizes: list[int], tasks: int, largest_bytes: int
) -> None:
    files = [file(f"{number:03}", size) for number, size in enumerate(sizes)]
    shared = lots(files, tasks, largest_bytes)
    assert [each for lot in shared for each in lot] == files
    assert all(len(lot) == 1 or sum(each.size for each in lot) <= largest_bytes for lot in shared)
    assert all(shared)
