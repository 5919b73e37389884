"""A file read in parts and stitched gives the same rows as the whole file."""

# ruff: noqa: S311 - random test data must be reproducible
from __future__ import annotations

import gzip
import io
import pickle
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from kafkalite.lab.columnar import tables
from kafkalite.lab.columnar.exchanges.stitching import stitch
from kafkalite.lab.columnar.files.file_parts import FilePart, split_file
from kafkalite.lab.columnar.options import Options, Table
from kafkalite.lab.columnar.reading import read_file
from tests.captures import damage, traffic
from tests.perf.big_capture import write

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

pytestmark = pytest.mark.endurance

SCHEMAS = {
    Table.PAIRS: tables.PAIRS,
    Table.CONNECTIONS: tables.CONNECTIONS,
    Table.FRAGMENTS: tables.FRAGMENTS,
    Table.UNPAIRED: tables.UNPAIRED,
    Table.PROBLEMS: tables.PROBLEMS,
}
SAME = tuple(name for name in tables.PAIRS.names if name != "connection")
OPTIONS = Options(chunk_bytes=1 << 16)


def contents(
    data: bytes, parts: Sequence[FilePart | None]
) -> tuple[Counter[Any], Counter[Any], int]:
    """Return the pairs, the problems, and the number of connections."""
    found: dict[Table, list[pa.RecordBatch]] = {table: [] for table in SCHEMAS}
    for nth, part in enumerate(parts):
        # Both kinds of sources are used. Parts are pickled, as Spark does.
        source = io.BytesIO(data) if nth % 2 else data
        for table, batch in read_file(source, "a", OPTIONS, _pickled(part)):
            found[table].append(batch)
    whole = {
        table: pa.Table.from_batches(found[table], schema) for table, schema in SCHEMAS.items()
    }
    more = stitch(whole[Table.CONNECTIONS], whole[Table.FRAGMENTS], whole[Table.UNPAIRED])
    pairs = pa.concat_tables([whole[Table.PAIRS], more.pairs])
    rows = zip(*(pairs[name].to_pylist() for name in SAME), strict=True)
    problems = pa.concat_tables([whole[Table.PROBLEMS], more.problems])
    counts: Counter[Any] = Counter()
    for each in problems.to_pylist():
        counts[each["kind"], each["connection"]] += each["count"]
    own = {more.renamed.get(each, each) for each in pairs["connection"].to_pylist()}
    return Counter(rows), counts, len(own)


def _pickled(part: FilePart | None) -> FilePart | None:
    copy: FilePart | None = pickle.loads(pickle.dumps(part))  # noqa: S301 - trusted
    return copy


@pytest.mark.parametrize("notes", [True, False])
def test_parts_equal_the_whole_capture(tmp_path: Path, notes: bool) -> None:  # noqa: FBT001 - a case
    made = write(tmp_path, 900_000, connections=7, file_bytes=10**9, notes=notes)
    data = made.files[0].read_bytes()
    parts = split_file(data, 200_000)
    assert len(parts) > 2
    assert [part.start for part in parts[1:]] == [part.stop for part in parts[:-1]]
    assert all(part.start % 4 == 0 for part in parts)
    in_parts = contents(data, parts)
    assert in_parts == contents(data, [None])
    assert in_parts[0].total() > 2000
    assert in_parts[2] == 7


_TINY_SEGMENTS = pytest.param(
    "tiny segments", marks=pytest.mark.endurance
)  # one byte per packet: 10 s
_IN_ORDER = ("segmented", _TINY_SEGMENTS, "coalesced", "without acknowledgements", "without close")


@pytest.mark.parametrize("name", [None, *_IN_ORDER, "without handshake", "late start"])
def test_parts_equal_the_whole_for_damaged_captures(name: str | None) -> None:
    cut = 0
    for seed in range(10):
        packets = traffic.packets(traffic.clean(Random(seed), connections=3, count=10))
        if name is not None:
            packets = damage.DAMAGES[name](packets, Random(seed))
        data = damage.capture_file(packets)
        parts = split_file(data, 10_000)
        cut += len(parts) > 1
        assert contents(data, parts) == contents(data, [None]), seed
    assert cut > 4


@pytest.mark.parametrize(
    "container", ["pcap", "pcap ns big-endian", "pcapng big-endian", "pcapng several interfaces"]
)
def test_parts_equal_the_whole_for_all_containers(container: str) -> None:
    chance = Random(container)
    packets = traffic.packets(traffic.clean(chance, connections=4, count=90))
    data = damage.capture_file(damage.remove_close(packets, chance), container=container)
    parts = split_file(io.BytesIO(data), 300_000)
    assert len(parts) > 1
    assert contents(data, parts) == contents(data, [None])


def test_file_is_not_split_within_corrupt_bytes() -> None:
    packets = traffic.packets(traffic.clean(Random(1), connections=4, count=150))
    data = bytearray(damage.capture_file(packets, container="pcapng"))
    data[70_000:140_000] = bytes(70_000)
    parts = split_file(bytes(data), 1 << 16)
    assert all(not 70_000 < part.start < 140_000 for part in parts)
    in_parts, whole = contents(bytes(data), parts), contents(bytes(data), [None])
    assert in_parts[1]["corrupt block", None] == whole[1]["corrupt block", None] > 0


def test_compressed_and_unknown_files_have_no_parts() -> None:
    packets = traffic.packets(traffic.clean(Random(1)))
    assert split_file(gzip.compress(damage.capture_file(packets))) == []
    assert split_file(b"junk") == []
    assert split_file(b"") == []
