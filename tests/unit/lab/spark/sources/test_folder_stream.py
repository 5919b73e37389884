"""Streams over folders: every byte is read once, in the order of names."""

from __future__ import annotations

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxFiles

from kafkalite.lab.spark.locations import InputFile
from kafkalite.lab.spark.sources.folder_stream import (
    FileRange,
    FileState,
    FolderStream,
    Offset,
    read_limit,
)


class Folder:
    """A folder whose files a test adds and changes."""

    def __init__(self, *names: str) -> None:
        self.names = [*names]
        self.open: set[str] = set()
        self.sizes: dict[str, int] = {}
        self.packed: set[str] = set()
        self.others: set[str] = set()
        self.stream = FolderStream(self.find, self.file_state)

    def find(self) -> list[InputFile]:
        return [
            InputFile(url=name, size=self.sizes.get(name, 10), modified_ns=1) for name in self.names
        ]

    def file_state(self, file: InputFile) -> FileState:
        if file.url in self.others:
            return FileState.OTHER
        if file.url not in self.open:
            return FileState.COMPLETE
        return FileState.DEFERRED if file.url in self.packed else FileState.GROWING

    def ranges(self, start: Offset, end: Offset) -> list[FileRange]:
        return self.stream.ranges_between(start, end)

    def names_in(self, start: Offset, end: Offset) -> list[str]:
        return [each.url for each in self.ranges(start, end)]


ALL = ReadAllAvailable()


def test_batch_has_the_files_added_since_the_previous_one() -> None:
    folder = Folder("d/1", "d/2")
    first = folder.stream.end_offset({}, ALL)
    folder.names += ["d/3"]
    second = folder.stream.end_offset(first, ALL)
    assert folder.names_in({}, first) == ["d/1", "d/2"]
    assert folder.names_in(first, second) == ["d/3"]
    assert folder.stream.end_offset(second, ALL) == second


def test_offsets_are_per_folder() -> None:
    folder = Folder("a/9", "b/1")
    first = folder.stream.end_offset({}, ALL)
    folder.names += ["b/2"]
    second = folder.stream.end_offset(first, ALL)
    assert (first, second) == ({"a": "9", "b": "1"}, {"a": "9", "b": "2"})
    assert folder.names_in(first, second) == ["b/2"]


def test_last_file_is_read_when_closed_or_succeeded() -> None:
    folder = Folder("d/1", "d/2")
    folder.open = folder.packed = {"d/1", "d/2"}
    first = folder.stream.end_offset({}, ALL)
    assert folder.names_in({}, first) == ["d/1"]
    assert folder.stream.end_offset(first, ALL) == first
    folder.open = set()
    assert folder.names_in(first, folder.stream.end_offset(first, ALL)) == ["d/2"]


def test_growing_file_is_read_piece_by_piece() -> None:
    folder = Folder("d/1", "d/2")
    folder.open = {"d/2"}
    first = folder.stream.end_offset({}, ALL)
    assert folder.ranges({}, first) == [FileRange("d/1", size=10), FileRange("d/2", 0, 10, 10)]
    assert folder.stream.end_offset(first, ALL) == first
    folder.sizes["d/2"] = 25
    second = folder.stream.end_offset(first, ALL)
    # A repeated batch has the same bytes, even if the file has grown since.
    folder.sizes["d/2"] = 40
    assert folder.ranges(first, second) == [FileRange("d/2", 10, 25, 15)]
    folder.names += ["d/3"]
    folder.open = {"d/3"}
    third = folder.stream.end_offset(second, ALL)
    assert folder.ranges(second, third) == [
        FileRange("d/2", 25, None, 15),
        FileRange("d/3", 0, 10, 10),
    ]
    assert third == {"d": "2", "d/3": 10}


def test_file_grows_until_one_of_its_kind_follows() -> None:
    folder = Folder("d/1", "d/note", "d/recorder.log", "other/note")
    folder.others = {"d/note", "d/recorder.log", "other/note"}
    folder.open = {"d/1", "d/2"}
    first = folder.stream.end_offset({}, ALL)
    assert folder.ranges({}, first) == [FileRange("d/1", 0, 10, 10)]
    folder.sizes["d/1"] = 30
    folder.names += ["d/2"]
    second = folder.stream.end_offset(first, ALL)
    assert second == {"d": "1", "d/2": 10}
    assert folder.names_in(first, second) == ["d/1", "d/2"]
    folder.open = set()
    third = folder.stream.end_offset(second, ALL)
    assert third == {"d": "2"}
    folder.names += ["d/3"]
    assert folder.names_in(third, folder.stream.end_offset(third, ALL)) == ["d/3"]


def test_growing_file_that_ends_without_new_bytes_is_completed() -> None:
    folder = Folder("d/1")
    folder.open = {"d/1"}
    first = folder.stream.end_offset({}, ALL)
    folder.open = set()
    last = folder.stream.end_offset(first, ALL)
    assert folder.ranges(first, last) == [FileRange("d/1", 10, None, 0)]
    assert folder.stream.end_offset(last, ALL) == last == {"d": "1"}


def test_batch_respects_limits_of_files_and_bytes() -> None:
    folder = Folder("d/1", "d/2", "d/3", "e/0")
    assert folder.names_in({}, folder.stream.end_offset({}, ReadMaxFiles(2))) == ["d/1", "e/0"]
    assert folder.names_in({}, folder.stream.end_offset({}, ReadMaxBytes(30))) == [
        "d/1",
        "d/2",
        "e/0",
    ]
    # A file above the limit is a batch by itself.
    assert folder.names_in({}, folder.stream.end_offset({}, ReadMaxBytes(5))) == ["e/0"]


def test_frozen_stream_ignores_later_data() -> None:
    folder = Folder("d/1", "d/2")
    folder.open = {"d/2"}
    folder.stream.freeze()
    folder.names += ["d/3", "e/1"]
    folder.sizes["d/2"] = 99
    first = folder.stream.end_offset({}, ReadMaxFiles(1))
    second = folder.stream.end_offset(first, ReadMaxFiles(1))
    assert (first, second) == ({"d": "1"}, {"d": "1", "d/2": 10})
    assert folder.stream.end_offset(second, ReadMaxFiles(1)) == second


def test_limit_follows_the_options() -> None:
    assert read_limit(3, None) == ReadMaxFiles(3)
    assert read_limit(None, 5) == ReadMaxBytes(5)
    assert isinstance(read_limit(None, None), ReadAllAvailable)
