"""The manifest: which files are read again, whose output stays, and how files are split."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.traffic.columnar.file_parts import FilePart
from kafkalite.traffic.columnar.packet_index import ScannerState
from kafkalite.traffic.spark.locations import InputFile
from kafkalite.traffic.spark.manifest import (
    InputSplit,
    Manifest,
    Piece,
    plan,
    split_evenly,
    split_inputs,
)


def file(name: str, size: int = 10, modified_ns: int = 1) -> InputFile:
    return InputFile(url=name, size=size, modified_ns=modified_ns)


AB = InputSplit(
    inputs=(file("a"), file("b")), requests=("requests/1",), problems=("problems/1",), rows=7
)
C = InputSplit(
    inputs=(file("c"),), requests=("requests/2",), incomplete=("loose/2",), quarantined=("c",)
)
MANIFEST = Manifest(
    decoder="1", run=3, splits=(AB, C), stitched=InputSplit(inputs=(), requests=("requests/3",))
)


def test_manifest_is_read_back_unchanged() -> None:
    assert Manifest.from_json(MANIFEST.to_json(), "1") == MANIFEST
    assert Manifest.from_json(None, "1") == Manifest(decoder="1")


def test_manifest_of_another_decoder_keeps_only_its_run() -> None:
    assert Manifest.from_json(MANIFEST.to_json(), "2") == Manifest(decoder="2", run=3)


def test_manifest_of_another_version_keeps_only_its_run() -> None:
    earlier = json.dumps({**json.loads(MANIFEST.to_json()), "form": 1})
    assert Manifest.from_json(earlier, "1") == Manifest(decoder="1", run=3)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"form": 2}', "null"])
def test_invalid_manifest_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - json's own error is one too
        Manifest.from_json(text, "1")


def test_outputs_are_all_written_files() -> None:
    written = {"requests/1", "problems/1", "requests/2", "loose/2", "requests/3"}
    assert MANIFEST.outputs == written


def test_unchanged_input_gives_an_empty_plan() -> None:
    found = plan(MANIFEST, [file("a"), file("b"), file("c")])
    assert found.is_empty
    assert found.keep == (AB, C)


def test_only_new_files_are_read() -> None:
    found = plan(MANIFEST, [file("a"), file("b"), file("c"), file("d")])
    assert (found.keep, found.drop, found.read) == ((AB, C), (), (file("d"),))


@pytest.mark.parametrize("changed", [file("b", size=11), file("b", modified_ns=2)])
def test_changed_file_drops_its_whole_split(changed: InputFile) -> None:
    found = plan(MANIFEST, [file("a"), changed, file("c")])
    assert (found.keep, found.drop, found.read) == ((C,), (AB,), (file("a"), changed))


def test_output_of_a_removed_file_is_deleted_unless_it_is_retained() -> None:
    left = [file("a"), file("c")]
    found = plan(MANIFEST, left)
    assert (found.keep, found.drop, found.read) == ((C,), (AB,), (file("a"),))
    assert plan(MANIFEST, left, keep_removed_inputs=True).is_empty


def test_small_files_share_a_split_and_a_large_file_has_its_own() -> None:
    files = [file("a", 3), file("b", 3), file("c", 3), file("d", 50), file("e", 1)]
    shared = [[file.url for file in split] for split in split_evenly(files, 1, 8)]
    assert shared == [["a", "b"], ["c"], ["d"], ["e"]]


def test_there_are_enough_splits_for_all_tasks() -> None:
    files = [file(str(number), 10) for number in range(8)]
    assert [len(split) for split in split_evenly(files, 4, 1_000)] == [2, 2, 2, 2]


def test_part_of_a_file_is_a_split_by_itself() -> None:
    parts = [
        FilePart(start=start, stop=stop, magic=b"", state=ScannerState())
        for start, stop in ((0, 40), (40, None))
    ]
    files = [file("a", 3), file("b", 50), file("c", 3)]
    shared = split_inputs(files, {"b": parts, "c": []}, 1, 8)
    assert shared == [
        (Piece(files[1], parts[0]),),
        (Piece(files[1], parts[1]),),
        (Piece(files[0]), Piece(files[2])),
    ]
    assert [sum(piece.size for piece in split) for split in shared] == [40, 10, 6]


def test_changed_file_read_in_parts_drops_all_its_splits() -> None:
    done = Manifest(
        decoder="1", splits=(InputSplit(inputs=(file("a"),)), InputSplit(inputs=(file("a"),)), C)
    )
    found = plan(done, [file("a", size=11), file("c")])
    assert (found.keep, found.drop, found.read) == ((C,), done.splits[:2], (file("a", size=11),))


@given(st.lists(st.integers(0, 300), max_size=30), st.integers(1, 9), st.integers(1, 400))
def test_every_file_is_in_one_split_in_order(
    sizes: list[int], tasks: int, largest_bytes: int
) -> None:
    files = [file(f"{number:03}", size) for number, size in enumerate(sizes)]
    shared = split_evenly(files, tasks, largest_bytes)
    assert [file for split in shared for file in split] == files
    assert all(
        len(split) == 1 or sum(file.size for file in split) <= largest_bytes for split in shared
    )
    assert all(shared)
