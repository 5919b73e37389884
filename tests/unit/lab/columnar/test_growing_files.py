"""A capture that is read while it grows gives the same rows as the complete capture."""

# ruff: noqa: S311 - random test data must be reproducible
from __future__ import annotations

from io import BytesIO
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from kafkalite.capture.reading.captures import exchanges, read
from kafkalite.lab.columnar import tables
from kafkalite.lab.columnar.exchanges.stitching import Pending, PendingLimits, stitch
from kafkalite.lab.columnar.growing_files import GrowingFile, can_grow
from kafkalite.lab.columnar.options import DEFAULT_OPTIONS, Options, Table
from tests.captures import damage, traffic
from tests.perf.big_capture import write
from tests.unit.lab.columnar.exchanges.test_stitching import split

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from kafkalite.lab.columnar.reading import TableBatch

pytestmark = pytest.mark.endurance

LOOSE = {
    Table.CONNECTIONS: tables.CONNECTIONS,
    Table.FRAGMENTS: tables.FRAGMENTS,
    Table.UNPAIRED: tables.UNPAIRED,
}
NO_LIMITS = {"requests_since_ns": 0, "connections_since_ns": 0}


class Reader:
    """Reads files as they grow, and restarts from pending rows on request."""

    def __init__(self, options: Options = DEFAULT_OPTIONS) -> None:
        self.options = options
        self.pending = Pending()
        self.pairs: list[pa.Table] = []
        self.problems: list[str] = []
        self.ids: set[int] = set()
        self._file: GrowingFile | None = None

    def read_grown(
        self, name: str, data: bytes, size: int, *, is_complete: bool, restarts: bool
    ) -> None:
        """Read a file that has grown to `size`; `restarts` drops the state in memory first."""
        file = self._file
        if file is None or restarts:
            at = 0 if file is None else file.size
            file = self._file = GrowingFile(name, self.options)
            if at:
                for _ in file.read(BytesIO(data[:at]), at):
                    pass
        source = BytesIO(data[:size])
        self._take(
            file.finish(source) if is_complete else file.read(source, size), name, is_complete
        )
        if is_complete:
            self._file = None

    def expire(self) -> None:
        """Treat open requests as unanswered."""
        self._stitch({table: schema.empty_table() for table, schema in LOOSE.items()}, None)

    def _take(self, parts: Iterable[TableBatch], name: str, is_complete: bool) -> None:  # noqa: FBT001
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
        growing = frozenset() if is_complete else frozenset({name})
        renamed = self._stitch(ends, PendingLimits(growing=growing, **NO_LIMITS))
        table = pa.Table.from_batches(pairs, tables.PAIRS)
        self.pairs.append(table)
        self.ids |= {renamed.get(each, each) for each in table["connection"].to_pylist()}

    def _stitch(self, ends: dict[Table, pa.Table], limits: PendingLimits | None) -> dict[int, int]:
        found = stitch(
            ends[Table.CONNECTIONS],
            ends[Table.FRAGMENTS],
            ends[Table.UNPAIRED],
            self.pending,
            limits,
        )
        self.pending = found.pending
        self.pairs.append(found.pairs)
        self.problems += found.problems["kind"].to_pylist()
        self.ids |= set(found.pairs["connection"].to_pylist())
        return dict(found.renamed)

    def found(self) -> list[tuple[str, bytes, bytes]]:
        whole = pa.concat_tables(self.pairs)
        columns = (whole[name].to_pylist() for name in ("client", "request", "response"))
        return sorted((c, q, a or b"") for c, q, a in zip(*columns, strict=True))


def read_growing(paths: Sequence[Path], random: Random, steps: int) -> Reader:
    reader = Reader()
    for path in paths:
        data = path.read_bytes()
        cuts = sorted(random.randrange(len(data)) for _ in range(steps))
        for size in cuts:
            restarts = random.random() < 0.2
            reader.read_grown(path.name, data, size, is_complete=False, restarts=restarts)
        restarts = random.random() < 0.2
        reader.read_grown(path.name, data, len(data), is_complete=True, restarts=restarts)
    reader.expire()
    return reader


def expected_exchanges(paths: Sequence[Path]) -> list[tuple[str, bytes, bytes]]:
    return sorted(
        (str(each.connection.client), each.request, each.response or b"")
        for each in exchanges(read(paths, lambda _: None))
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("files", [1, 3])
def test_growing_capture_equals_the_complete_capture(tmp_path: Path, seed: int, files: int) -> None:
    packets = traffic.packets(traffic.clean(Random(seed)))
    packets = damage.segment(packets, Random(seed), 300)
    paths = split(packets, files, tmp_path)
    reader = read_growing(paths, Random(seed), 9)
    expected = expected_exchanges(paths)
    assert reader.found() == expected
    assert reader.problems.count("gap") == 0
    assert len(reader.ids) == len({client for client, _, _ in expected})


@pytest.mark.parametrize("seed", range(3))
def test_growing_recording_over_several_files_equals_the_complete_one(
    tmp_path: Path, seed: int
) -> None:
    made = write(tmp_path, 60_000, connections=3, file_bytes=20_000)
    reader = read_growing(made.files, Random(seed), 20)
    assert len(made.files) > 2
    assert reader.found() == expected_exchanges(made.files)
    assert reader.problems == []
    assert len(reader.ids) == 3


def test_pairs_are_returned_as_soon_as_the_response_arrives(tmp_path: Path) -> None:
    made = write(tmp_path, 60_000, connections=3, file_bytes=20_000)
    reader = Reader()
    counts = []
    for path in made.files:
        data = path.read_bytes()
        for size in (len(data) // 2, len(data)):
            is_complete = size == len(data)
            reader.read_grown(path.name, data, size, is_complete=is_complete, restarts=False)
            counts.append(len(reader.found()))
    assert all(after > before for before, after in zip([0, *counts], counts, strict=False))
    assert reader.pending.requests.num_rows < 10


def test_expired_requests_count_as_unanswered(tmp_path: Path) -> None:
    packets = traffic.packets(traffic.clean(Random(1)))
    first, second = split(packets, 2, tmp_path)
    reader = Reader()
    reader.read_grown(
        first.name, first.read_bytes(), first.stat().st_size, is_complete=True, restarts=False
    )
    waiting, known = reader.pending.requests.num_rows, reader.pending.connections.num_rows
    assert waiting
    assert known
    connections, fragments, unpaired = (schema.empty_table() for schema in LOOSE.values())
    late = PendingLimits(
        requests_since_ns=traffic.START_NS + 10**15, connections_since_ns=traffic.START_NS + 10**15
    )
    found = stitch(connections, fragments, unpaired, reader.pending, late)
    assert found.pairs.num_rows == waiting
    assert found.pairs["response_ts"].null_count == waiting
    assert (found.pending.connections.num_rows, found.pending.requests.num_rows) == (0, 0)
    assert second.exists()


def test_compressed_and_unknown_files_are_not_read_while_they_grow() -> None:
    assert can_grow(b"\x0a\x0d\x0d\x0a")
    assert can_grow(b"\xd4\xc3\xb2\xa1")
    assert not can_grow(b"\x1f\x8b\x08\x00")
    assert not can_grow(b"")


def test_age_of_open_requests_is_returned_by_api(tmp_path: Path) -> None:
    packets = traffic.packets(traffic.clean(Random(1)))
    (path,) = split(packets, 1, tmp_path)
    data = path.read_bytes()
    file = GrowingFile(path.name, DEFAULT_OPTIONS)
    seen = set()
    for size in range(500, len(data), 500):
        for _ in file.read(BytesIO(data[:size]), size):
            pass
        for key, since_ns in file.first_open_request_ns().items():
            assert since_ns >= traffic.START_NS
            seen.add(key)
    assert seen
