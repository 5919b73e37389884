"""A file read in parts says, once these are put together, what it says when it is read whole."""

# ruff: noqa: S311 - chance is to be repeatable
from __future__ import annotations

import gzip
import io
import pickle
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from kafkalite.columnar import tables
from kafkalite.columnar.options import Options, Table
from kafkalite.columnar.parts import FilePart, parts_of
from kafkalite.columnar.reading import read_file
from kafkalite.columnar.stitching import stitch
from tests.captures import damage, traffic
from tests.perf.big_capture import write

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SCHEMAS = {
    Table.PAIRS: tables.PAIRS,
    Table.CONNECTIONS: tables.CONNECTIONS,
    Table.FRAGMENTS: tables.FRAGMENTS,
    Table.UNPAIRED: tables.UNPAIRED,
    Table.PROBLEMS: tables.PROBLEMS,
}
SAME = tuple(name for name in tables.PAIRS.names if name != "connection")
OPTIONS = Options(chunk_bytes=1 << 16)


def said(data: bytes, parts: Sequence[FilePart | None]) -> tuple[Counter[Any], Counter[Any], int]:
    """Return the pairs, the problems, and how many connections there are."""
    found: dict[Table, list[pa.RecordBatch]] = {table: [] for table in SCHEMAS}
    for nth, part in enumerate(parts):
        # Both kinds of sources; and parts travel to where they are read.
        source = io.BytesIO(data) if nth % 2 else data
        for table, batch in read_file(source, "a", OPTIONS, _sent(part)):
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


def _sent(part: FilePart | None) -> FilePart | None:
    sent: FilePart | None = pickle.loads(pickle.dumps(part))  # noqa: S301 - our own
    return sent


@pytest.mark.parametrize("notes", [True, False])
def test_parts_of_a_capture_say_together_what_the_whole_says(tmp_path: Path, notes: bool) -> None:  # noqa: FBT001 - a case
    made = write(tmp_path, 900_000, connections=7, file_bytes=10**9, notes=notes)
    data = made.files[0].read_bytes()
    parts = parts_of(data, 200_000)
    assert len(parts) > 2
    assert [part.start for part in parts[1:]] == [part.stop for part in parts[:-1]]
    assert all(part.start % 4 == 0 for part in parts)
    in_parts = said(data, parts)
    assert in_parts == said(data, [None])
    assert in_parts[0].total() > 2000
    assert in_parts[2] == 7


_IN_ORDER = ("segmented", "crumbled", "coalesced", "without acknowledgements", "without farewell")


@pytest.mark.parametrize("name", [None, *_IN_ORDER, "without handshake", "begun late"])
def test_wherever_parts_are_cut_they_say_what_the_whole_says(name: str | None) -> None:
    cut = 0
    for seed in range(25):
        packets = traffic.packets(traffic.clean(Random(seed), connections=3, count=10))
        if name is not None:
            packets = damage.DAMAGES[name](packets, Random(seed))
        data = damage.kept(packets)
        parts = parts_of(data, 10_000)
        cut += len(parts) > 1
        assert said(data, parts) == said(data, [None]), seed
    assert cut > 10


@pytest.mark.parametrize(
    "container", ["pcap", "pcap ns big-endian", "pcapng big-endian", "pcapng several interfaces"]
)
def test_every_kind_of_file_can_be_read_in_parts(container: str) -> None:
    chance = Random(container)
    packets = traffic.packets(traffic.clean(chance, connections=4, count=90))
    data = damage.kept(damage.without_farewell(packets, chance), container=container)
    parts = parts_of(io.BytesIO(data), 300_000)
    assert len(parts) > 1
    assert said(data, parts) == said(data, [None])


def test_parts_are_not_cut_where_the_way_is_lost() -> None:
    packets = traffic.packets(traffic.clean(Random(1), connections=4, count=150))
    data = bytearray(damage.kept(packets, container="pcapng"))
    data[70_000:140_000] = bytes(70_000)
    parts = parts_of(bytes(data), 1 << 16)
    assert all(not 70_000 < part.start < 140_000 for part in parts)
    in_parts, whole = said(bytes(data), parts), said(bytes(data), [None])
    assert in_parts[1]["corrupt block", None] == whole[1]["corrupt block", None] > 0


def test_what_is_packed_or_no_capture_has_no_parts() -> None:
    packets = traffic.packets(traffic.clean(Random(1)))
    assert parts_of(gzip.compress(damage.kept(packets))) == []
    assert parts_of(b"junk") == []
    assert parts_of(b"") == []
