"""The manifest: which files are read again, whose output stays, and how files are split."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.lab.columnar.files.file_parts import FilePart
from kafkalite.lab.columnar.files.packet_index import ScannerState
from kafkalite.lab.spark import manifest
from kafkalite.lab.spark.locations import InputFile
from kafkalite.lab.spark.manifest import (
    PART_SPLITS,
    InputSplit,
    Manifest,
    Piece,
    Reason,
    RetainedOutputError,
    StoredManifest,
    parse,
    part_names,
    part_to_json,
    split_evenly,
    split_inputs,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def file(name: str, size: int = 10, modified_ns: int = 1) -> InputFile:
    return InputFile(url=name, size=size, modified_ns=modified_ns)


AB = InputSplit(
    inputs=(file("a"), file("b")),
    requests=("requests/api=Fetch/date=2026-11-22/1", "requests/api=Fetch/date=2026-11-23/1"),
    problems=("problems/1",),
    rows=7,
    decoder="1",
)
C = InputSplit(
    inputs=(file("c"),),
    requests=("requests/api=Produce/date=2026-11-22/2",),
    incomplete=("_kafkalite/loose/frames/2",),
    quarantined=("c",),
    decoder="1",
)
MANIFEST = Manifest(
    selection="all",
    run=3,
    splits=(AB, C),
    stitched=InputSplit(inputs=(), requests=("requests/3",)),
)


def plan(
    done: Manifest,
    listed: Iterable[InputFile],
    *,
    decoder: str = "1",
    selection: str = "all",
    keep_removed_inputs: bool = False,
) -> manifest.Plan:
    return manifest.plan(
        done,
        listed,
        decoder=decoder,
        selection=selection,
        keep_removed_inputs=keep_removed_inputs,
    )


def stored_texts(stored: StoredManifest) -> tuple[str, dict[str, str]]:
    return stored.head(), {name: part_to_json(each) for name, each in stored.parts.items()}


def former_fields(form: int) -> dict[str, Any]:
    """Return the manifest as an earlier version wrote it, in one file."""
    fields = json.loads(StoredManifest(manifest=MANIFEST).head())
    del fields["parts"], fields["derived"]
    return {**fields, "form": form, "lots": json.loads(part_to_json(MANIFEST.splits))}


def test_manifest_is_read_back_unchanged() -> None:
    stored = StoredManifest().next(MANIFEST)
    head, parts = stored_texts(stored)
    assert parse(head, parts) == stored
    assert part_names(head) == ("_kafkalite/manifest/000003-0000.json",)
    assert parse(None, {}) == StoredManifest()


def test_paths_of_an_earlier_version_get_the_names_that_are_listed_now() -> None:
    names = ("/a/../in/1", "/in/2", "s3a://in/../3")
    stored = part_to_json([InputSplit(inputs=tuple(map(file, names)))])
    head = StoredManifest(parts={"part": ()}).head()
    (split,) = parse(head, {"part": stored}).manifest.splits
    assert [each.url for each in split.inputs] == ["/in/1", "/in/2", "s3a://in/../3"]


def test_manifest_in_one_file_is_read() -> None:
    earlier = json.dumps(former_fields(3))
    assert part_names(earlier) == ()
    assert parse(earlier, {}).manifest == replace(MANIFEST, derived=None)


def test_manifest_with_one_decoder_for_all_output_is_read() -> None:
    fields = former_fields(2)
    del fields["selection"]
    for split in (*fields["lots"], fields["stitched"]):
        del split["decoder"], split["is_retained"]
    earlier = json.dumps({**fields, "decoder": "9.2.0 [[], null, null, null]"})
    converted = parse(earlier, {}).manifest
    assert converted.selection == "[[], null, null, null]"
    splits = tuple(replace(split, decoder="kafkalite 9.2.0") for split in MANIFEST.splits)
    assert replace(converted, selection="all") == replace(MANIFEST, splits=splits, derived=None)


@pytest.mark.parametrize("form", [1, 5])
def test_manifest_of_an_unknown_form_is_refused(form: int) -> None:
    other = json.dumps({**former_fields(3), "form": form})
    with pytest.raises(ValueError, match=f"another version of kafkalite .form {form}.; use that"):
        parse(other, {})


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"form": 2}', '{"form": 3}', '{"form": 4}', "null"]
)
def test_invalid_manifest_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - json's own error is one too
        parse(text, dict.fromkeys(part_names(text), "[]"))


def splits_of(run: int, count: int) -> tuple[InputSplit, ...]:
    return tuple(InputSplit(inputs=(file(f"{run}/{number}"),)) for number in range(count))


def test_run_writes_only_parts_that_changed() -> None:
    first = StoredManifest().next(Manifest(run=1, splits=splits_of(1, 2 * PART_SPLITS + 1)))
    assert [len(splits) for splits in first.parts.values()] == [PART_SPLITS, PART_SPLITS, 1]
    full, changed, small = first.parts
    audited = first.next(replace(first.manifest, audited="all"))
    assert audited.parts == first.parts
    unchanged = [split for split in first.manifest.splits if split != first.parts[changed][7]]
    second = first.next(Manifest(run=2, splits=(*unchanged, *splits_of(2, 3))))
    assert set(second.parts) & set(first.parts) == {full}
    assert sorted(split.inputs for splits in second.parts.values() for split in splits) == sorted(
        split.inputs for split in second.manifest.splits
    )
    assert small not in second.parts


def test_part_of_the_same_run_is_not_written_again() -> None:
    first = StoredManifest().next(Manifest(run=1, splits=splits_of(1, 2)))
    second = first.next(Manifest(run=1, splits=splits_of(1, 1)))
    assert not set(first.parts) & set(second.parts)


def test_many_small_runs_have_few_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "PART_SPLITS", 20)
    stored, written = StoredManifest(), 0
    for run in range(1, 41):
        after = stored.next(Manifest(run=run, splits=(*stored.manifest.splits, *splits_of(run, 2))))
        written += sum(len(after.parts[name]) for name in set(after.parts) - set(stored.parts))
        stored = after
    assert len(stored.parts) <= 8
    assert written <= 40 * 20


def test_equal_splits_are_stored_as_often_as_they_occur() -> None:
    part_split = InputSplit(inputs=(file("a"),))
    stored = StoredManifest().next(Manifest(run=1, splits=(part_split, part_split)))
    [splits] = stored.next(Manifest(run=2, splits=(part_split,))).parts.values()
    assert splits == (part_split,)


def test_outputs_are_all_written_files() -> None:
    assert MANIFEST.outputs == {*AB.outputs, *C.outputs, "requests/3"}
    assert len(MANIFEST.outputs) == 6


def test_unchanged_input_gives_an_empty_plan() -> None:
    found = plan(MANIFEST, [file("a"), file("b"), file("c")])
    assert found.is_empty
    assert found.keep == (AB, C)


def test_only_new_files_are_read() -> None:
    found = plan(MANIFEST, [file("a"), file("b"), file("c"), file("d")])
    assert (found.keep, found.drop, found.read) == ((AB, C), {}, (file("d"),))
    assert [*found.lines()] == []


@pytest.mark.parametrize("changed", [file("b", size=11), file("b", modified_ns=2)])
def test_changed_file_drops_its_whole_split(changed: InputFile) -> None:
    found = plan(MANIFEST, [file("a"), changed, file("c")])
    assert (found.keep, found.read) == ((C,), (file("a"), changed))
    assert found.drop == {Reason.CHANGED: (AB,)}
    assert [*found.lines()] == ["writing problems, requests/api=Fetch again: input files changed"]


def test_output_of_a_removed_file_is_deleted_unless_it_is_retained() -> None:
    left = [file("a"), file("c")]
    found = plan(MANIFEST, left)
    assert (found.keep, found.read) == ((C,), (file("a"),))
    assert found.drop == {Reason.GONE: (AB,)}
    (line,) = found.lines()
    assert line.endswith("input files are gone, and --keep-removed-inputs is not set")
    retained = plan(MANIFEST, left, keep_removed_inputs=True)
    assert retained.is_empty
    assert retained.keep == (replace(AB, is_retained=True), C)


def test_another_decoder_reads_the_files_that_exist_and_keeps_the_output_of_others() -> None:
    again = plan(MANIFEST, [file("a"), file("b"), file("c")], decoder="2")
    assert (again.keep, again.drop) == ((), {Reason.DECODER: (AB, C)})
    (line,) = again.lines()
    tables = "problems, requests/api=Fetch, requests/api=Produce"
    assert line == f"writing {tables} again: another version of the decoder wrote them"
    retained = plan(MANIFEST, [file("c")], decoder="2", keep_removed_inputs=True)
    assert retained.keep == (replace(AB, is_retained=True),)
    assert (retained.drop, retained.read) == ({Reason.DECODER: (C,)}, (file("c"),))


def test_another_selection_reads_all_files_again() -> None:
    found = plan(MANIFEST, [file("a"), file("b"), file("c")], selection="some")
    assert (found.keep, found.drop) == ((), {Reason.SELECTION: (AB, C)})


RETAINED = replace(MANIFEST, splits=(replace(AB, is_retained=True), C))


@pytest.mark.parametrize(
    ("listed", "options", "text"),
    [
        ([file("c")], {}, "contains the results of a and 1 more, which --keep-removed-inputs has"),
        ([file("c")], {"selection": "some", "keep_removed_inputs": True}, "for another --api, "),
        ([file("b", 11)], {"keep_removed_inputs": True}, "b changed, and its results are in the"),
    ],
)
def test_run_that_would_delete_retained_output_is_refused(
    listed: list[InputFile], options: Mapping[str, Any], text: str
) -> None:
    with pytest.raises(RetainedOutputError, match=text):
        plan(RETAINED, listed, **options)


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
    part = InputSplit(inputs=(file("a"),), decoder="1")
    found = plan(Manifest(selection="all", splits=(part, part, C)), [file("a", size=11), file("c")])
    assert (found.keep, found.read) == ((C,), (file("a", size=11),))
    assert found.drop == {Reason.CHANGED: (part, part)}


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
