"""A capture that is read while it grows, cut anywhere, says what it says once it is whole."""

# ruff: noqa: S311 - chance is to be repeatable
from __future__ import annotations

from io import BytesIO
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from kafkalite.capture.reading import exchanges, read
from kafkalite.columnar import tables
from kafkalite.columnar.growing import GrowingFile, can_grow
from kafkalite.columnar.options import EVERYTHING, Options, Table
from kafkalite.columnar.stitching import Left, Waiting, stitch
from tests.captures import damage, traffic
from tests.perf.big_capture import write
from tests.unit.columnar.test_stitching import split

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from kafkalite.columnar.reading import Part

LOOSE = {
    Table.CONNECTIONS: tables.CONNECTIONS,
    Table.FRAGMENTS: tables.FRAGMENTS,
    Table.UNPAIRED: tables.UNPAIRED,
}
PATIENT = {"give_up_ns": 0, "forget_ns": 0}


class Reader:
    """Whoever reads files as they grow; now and then it forgets all but what it has left over."""

    def __init__(self, options: Options = EVERYTHING) -> None:
        self.options = options
        self.left = Left()
        self.pairs: list[pa.Table] = []
        self.problems: list[str] = []
        self.ids: set[int] = set()
        self._file: GrowingFile | None = None

    def grown(self, name: str, data: bytes, size: int, *, is_whole: bool, forgets: bool) -> None:
        """Take what a file has come to have; `forgets` what it knows of it in memory first."""
        file = self._file
        if file is None or forgets:
            at = 0 if file is None else file.size
            file = self._file = GrowingFile(name, self.options)
            if at:
                for _ in file.read(BytesIO(data[:at]), at):
                    pass
        source = BytesIO(data[:size])
        self._take(file.finish(source) if is_whole else file.read(source, size), name, is_whole)
        if is_whole:
            self._file = None

    def give_up(self) -> None:
        """Expect nothing more."""
        self._put_together({table: schema.empty_table() for table, schema in LOOSE.items()}, None)

    def _take(self, parts: Iterable[Part], name: str, is_whole: bool) -> None:  # noqa: FBT001
        found: dict[Table, list[pa.RecordBatch]] = {table: [] for table in LOOSE}
        pairs = []
        for table, batch in parts:
            if table is Table.PAIRS:
                pairs.append(batch)
            elif table is Table.PROBLEMS:
                self.problems += batch["kind"].to_pylist()
            else:
                found[table].append(batch)
        ends = {t: pa.Table.from_batches(found[t], schema) for t, schema in LOOSE.items()}
        growing = frozenset() if is_whole else frozenset({name})
        renamed = self._put_together(ends, Waiting(growing=growing, **PATIENT))
        table = pa.Table.from_batches(pairs, tables.PAIRS)
        self.pairs.append(table)
        self.ids |= {renamed.get(each, each) for each in table["connection"].to_pylist()}

    def _put_together(self, ends: dict[Table, pa.Table], waiting: Waiting | None) -> dict[int, int]:
        found = stitch(
            ends[Table.CONNECTIONS], ends[Table.FRAGMENTS], ends[Table.UNPAIRED], self.left, waiting
        )
        self.left = found.left
        self.pairs.append(found.pairs)
        self.problems += found.problems["kind"].to_pylist()
        self.ids |= set(found.pairs["connection"].to_pylist())
        return dict(found.renamed)

    def found(self) -> list[tuple[str, bytes, bytes]]:
        whole = pa.concat_tables(self.pairs)
        columns = (whole[name].to_pylist() for name in ("client", "request", "response"))
        return sorted((c, q, a or b"") for c, q, a in zip(*columns, strict=True))


def follow(paths: Sequence[Path], dice: Random, steps: int) -> Reader:
    reader = Reader()
    for path in paths:
        data = path.read_bytes()
        cuts = sorted(dice.randrange(len(data)) for _ in range(steps))
        for size in cuts:
            forgets = dice.random() < 0.2
            reader.grown(path.name, data, size, is_whole=False, forgets=forgets)
        reader.grown(path.name, data, len(data), is_whole=True, forgets=dice.random() < 0.2)
    reader.give_up()
    return reader


def wanted(paths: Sequence[Path]) -> list[tuple[str, bytes, bytes]]:
    return sorted(
        (str(each.connection.client), each.request, each.response or b"")
        for each in exchanges(read(paths, lambda _: None))
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("files", [1, 3])
def test_a_capture_read_as_it_grows_says_what_the_whole_says(
    tmp_path: Path, seed: int, files: int
) -> None:
    packets = traffic.packets(traffic.clean(Random(seed)))
    packets = damage.segmented(packets, Random(seed), 300)
    paths = split(packets, files, tmp_path)
    reader = follow(paths, Random(seed), 9)
    said = wanted(paths)
    assert reader.found() == said
    assert reader.problems.count("gap") == 0
    assert len(reader.ids) == len({client for client, _, _ in said})


@pytest.mark.parametrize("seed", range(3))
def test_so_does_one_of_our_recorder_that_goes_on_from_file_to_file(
    tmp_path: Path, seed: int
) -> None:
    made = write(tmp_path, 60_000, connections=3, file_bytes=20_000)
    reader = follow(made.files, Random(seed), 20)
    assert len(made.files) > 2
    assert reader.found() == wanted(made.files)
    assert reader.problems == []
    assert len(reader.ids) == 3


def test_pairs_are_told_as_soon_as_both_halves_are_there(tmp_path: Path) -> None:
    made = write(tmp_path, 60_000, connections=3, file_bytes=20_000)
    reader = Reader()
    told = []
    for path in made.files:
        data = path.read_bytes()
        for size in (len(data) // 2, len(data)):
            is_whole = size == len(data)
            reader.grown(path.name, data, size, is_whole=is_whole, forgets=False)
            told.append(len(reader.found()))
    assert all(after > before for before, after in zip([0, *told], told, strict=False))
    assert reader.left.requests.num_rows < 10


def test_what_waits_is_given_up_in_time_and_counts_as_never_answered(tmp_path: Path) -> None:
    packets = traffic.packets(traffic.clean(Random(1)))
    first, second = split(packets, 2, tmp_path)
    reader = Reader()
    reader.grown(first.name, first.read_bytes(), first.stat().st_size, is_whole=True, forgets=False)
    waiting, known = reader.left.requests.num_rows, reader.left.connections.num_rows
    assert waiting
    assert known
    connections, fragments, unpaired = (schema.empty_table() for schema in LOOSE.values())
    late = Waiting(give_up_ns=traffic.START_NS + 10**15, forget_ns=traffic.START_NS + 10**15)
    found = stitch(connections, fragments, unpaired, reader.left, late)
    assert found.pairs.num_rows == waiting
    assert found.pairs["answered"].null_count == waiting
    assert (found.left.connections.num_rows, found.left.requests.num_rows) == (0, 0)
    assert second.exists()


def test_what_is_packed_or_no_capture_is_not_read_before_it_is_whole() -> None:
    assert can_grow(b"\x0a\x0d\x0d\x0a")
    assert can_grow(b"\xd4\xc3\xb2\xa1")
    assert not can_grow(b"\x1f\x8b\x08\x00")
    assert not can_grow(b"")


def test_requests_that_wait_within_a_file_are_known_by_their_age(tmp_path: Path) -> None:
    packets = traffic.packets(traffic.clean(Random(1)))
    (path,) = split(packets, 1, tmp_path)
    data = path.read_bytes()
    file = GrowingFile(path.name, EVERYTHING)
    seen = set()
    for size in range(500, len(data), 500):
        for _ in file.read(BytesIO(data[:size]), size):
            pass
        for key, since_ns in file.open_since().items():
            assert since_ns >= traffic.START_NS
            seen.add(key)
    assert seen
