"""Files that come to be: every byte is taken once, in the order of names."""

from __future__ import annotations

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxFiles

from kafkalite.spark.places import InputFile
from kafkalite.spark.sources.growing import Growing, Offset, Standing, Stretch, limit_of


class Folder:
    """Files that a test adds to."""

    def __init__(self, *names: str) -> None:
        self.names = [*names]
        self.open: set[str] = set()
        self.sizes: dict[str, int] = {}
        self.packed: set[str] = set()
        self.growing = Growing(self.find, self.standing)

    def find(self) -> list[InputFile]:
        return [
            InputFile(url=name, size=self.sizes.get(name, 10), modified_ns=1) for name in self.names
        ]

    def standing(self, file: InputFile) -> Standing:
        if file.url not in self.open:
            return Standing.WHOLE
        return Standing.WAITS if file.url in self.packed else Standing.GROWS

    def pieces(self, start: Offset, end: Offset) -> list[Stretch]:
        return self.growing.between(start, end)

    def taken(self, start: Offset, end: Offset) -> list[str]:
        return [each.url for each in self.pieces(start, end)]


ALL = ReadAllAvailable()


def test_a_batch_is_what_is_new_since() -> None:
    folder = Folder("d/1", "d/2")
    first = folder.growing.next({}, ALL)
    folder.names += ["d/3"]
    second = folder.growing.next(first, ALL)
    assert folder.taken({}, first) == ["d/1", "d/2"]
    assert folder.taken(first, second) == ["d/3"]
    assert folder.growing.next(second, ALL) == second


def test_each_folder_has_its_own_names() -> None:
    folder = Folder("a/9", "b/1")
    first = folder.growing.next({}, ALL)
    folder.names += ["b/2"]
    second = folder.growing.next(first, ALL)
    assert (first, second) == ({"a": "9", "b": "1"}, {"a": "9", "b": "2"})
    assert folder.taken(first, second) == ["b/2"]


def test_the_last_file_waits_until_it_is_closed_or_has_a_successor() -> None:
    folder = Folder("d/1", "d/2")
    folder.open = folder.packed = {"d/1", "d/2"}
    first = folder.growing.next({}, ALL)
    assert folder.taken({}, first) == ["d/1"]
    assert folder.growing.next(first, ALL) == first
    folder.open = set()
    assert folder.taken(first, folder.growing.next(first, ALL)) == ["d/2"]


def test_a_file_that_grows_is_taken_piece_by_piece_to_its_end() -> None:
    folder = Folder("d/1", "d/2")
    folder.open = {"d/2"}
    first = folder.growing.next({}, ALL)
    assert folder.pieces({}, first) == [Stretch("d/1", size=10), Stretch("d/2", 0, 10, 10)]
    assert folder.growing.next(first, ALL) == first
    folder.sizes["d/2"] = 25
    second = folder.growing.next(first, ALL)
    # Done again while it grows on, a batch takes what it took.
    folder.sizes["d/2"] = 40
    assert folder.pieces(first, second) == [Stretch("d/2", 10, 25, 15)]
    folder.names += ["d/3"]
    folder.open = {"d/3"}
    third = folder.growing.next(second, ALL)
    assert folder.pieces(second, third) == [Stretch("d/2", 25, None, 15), Stretch("d/3", 0, 10, 10)]
    assert third == {"d": "2", "d/3": 10}


def test_a_file_that_ends_as_it_was_taken_is_taken_to_its_end_all_the_same() -> None:
    folder = Folder("d/1")
    folder.open = {"d/1"}
    first = folder.growing.next({}, ALL)
    folder.open = set()
    last = folder.growing.next(first, ALL)
    assert folder.pieces(first, last) == [Stretch("d/1", 10, None, 0)]
    assert folder.growing.next(last, ALL) == last == {"d": "1"}


def test_a_batch_has_a_largest_number_of_files_and_of_bytes() -> None:
    folder = Folder("d/1", "d/2", "d/3", "e/0")
    assert folder.taken({}, folder.growing.next({}, ReadMaxFiles(2))) == ["d/1", "e/0"]
    assert folder.taken({}, folder.growing.next({}, ReadMaxBytes(30))) == ["d/1", "d/2", "e/0"]
    # One that is larger than all of a batch is a batch.
    assert folder.taken({}, folder.growing.next({}, ReadMaxBytes(5))) == ["e/0"]


def test_a_run_over_what_is_there_leaves_what_comes_while_it_lasts() -> None:
    folder = Folder("d/1", "d/2")
    folder.open = {"d/2"}
    folder.growing.stand_still()
    folder.names += ["d/3", "e/1"]
    folder.sizes["d/2"] = 99
    first = folder.growing.next({}, ReadMaxFiles(1))
    second = folder.growing.next(first, ReadMaxFiles(1))
    assert (first, second) == ({"d": "1"}, {"d": "1", "d/2": 10})
    assert folder.growing.next(second, ReadMaxFiles(1)) == second


def test_limits_are_what_options_say() -> None:
    assert limit_of(3, None) == ReadMaxFiles(3)
    assert limit_of(None, 5) == ReadMaxBytes(5)
    assert isinstance(limit_of(None, None), ReadAllAvailable)
