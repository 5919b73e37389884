"""Capture files read in columns say what was written into them, and what the scalar reader says."""

# ruff: noqa: S311 - damage is to be repeatable
from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING
from weakref import ref

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalite.capture.classic import MAGICS
from kafkalite.capture.model import Endpoint, ProblemKind
from kafkalite.capture.sections import MAGIC as SECTION
from kafkalite.columnar.options import Options, Table
from kafkalite.columnar.reading import Reading, read_file
from kafkalite.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.captures import damage, traffic
from tests.perf.big_capture import write
from tests.unit.columnar.captures import columnar, scalar
from tests.unit.frames import request_frame, response_frame

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.columnar.captures import Said


def tables(path: Path, options: Options) -> dict[Table, pa.Table]:
    found: dict[Table, list[pa.RecordBatch]] = {}
    with path.open("rb") as file:
        for table, batch in read_file(file, path.name, options):
            found.setdefault(table, []).append(batch)
    return {table: pa.Table.from_batches(batches) for table, batches in found.items()}


@pytest.mark.parametrize("chunk_bytes", [1 << 16, 8 << 20])
def test_every_exchange_of_several_files_is_found(tmp_path: Path, chunk_bytes: int) -> None:
    made = write(tmp_path, 700_000, connections=7, file_bytes=300_000)
    pairs = [tables(path, Options(chunk_bytes=chunk_bytes))[Table.PAIRS] for path in made.files]
    both = pa.concat_tables(pairs)
    assert len(made.files) > 2
    assert both.num_rows == made.frames // 2
    assert sum(key == 8 for key in both["api_key"].to_pylist()) == made.commits
    assert both["response"].null_count == 0
    assert len(set(both["connection"].to_pylist())) == 7


def judged(data: bytes, path: Path, chunk_bytes: int = 8 << 20) -> tuple[Said, Said]:
    return columnar(data, str(path), chunk_bytes), scalar(data, path)


@pytest.mark.parametrize("chunk_bytes", [1 << 16, 8 << 20])
@pytest.mark.parametrize("name", [*damage.HARMLESS, *damage.LOSSY])
def test_whatever_happened_to_a_capture_both_readers_say_the_same(
    tmp_path: Path, name: str, chunk_bytes: int
) -> None:
    harm = {**damage.HARMLESS, **damage.LOSSY}[name]
    seed = chunk_bytes % 7
    packets = harm(traffic.packets(traffic.clean(Random(seed), connections=2)), Random(seed))
    ours, theirs = judged(damage.kept(packets), tmp_path / "some.pcapng", chunk_bytes)
    assert ours == theirs


@pytest.mark.parametrize("name", [*damage.HARMLESS, *damage.LOSSY])
def test_however_it_happened_both_readers_say_the_same(tmp_path: Path, name: str) -> None:
    harm = {**damage.HARMLESS, **damage.LOSSY}[name]
    for seed in range(25):
        packets = traffic.packets(traffic.clean(Random(seed), connections=2, count=8))
        data = damage.kept(harm(packets, Random(seed)))
        ours, theirs = judged(data, tmp_path / "some.pcapng", 1 << 16)
        assert ours == theirs, seed


@pytest.mark.parametrize("cuts", [[], [9], [9, 18], [20]])
def test_a_first_response_that_stands_before_its_request_is_that_ones(
    tmp_path: Path, cuts: list[int]
) -> None:
    talk = damage.Talk(Endpoint("10.0.0.2", 40_000), traffic.BROKER, 1_000)
    request = request_frame(HeartbeatRequest(group_id="g"), 4)
    for start, stop in pairwise([0, *cuts, len(request)]):
        talk.request(2_000_000, request[start:stop])
    talk.response(3_000_000, response_frame(HeartbeatResponse(), 4))
    *before, last, response = (each for each in talk.packets if each.payload)
    packets = [*talk.packets[:3], *before, response, last]
    ours, theirs = judged(damage.kept(packets), tmp_path / "some.pcapng")
    assert ours == theirs


@pytest.mark.parametrize("network", damage.NETWORKS)
def test_headers_and_files_of_every_kind_say_the_same(tmp_path: Path, network: str) -> None:
    packets = traffic.packets(traffic.clean(Random(3), connections=2, count=4))
    kinds = [(link, "pcapng") for link in damage.LINKS]
    kinds += [("ethernet", container) for container in damage.CONTAINERS]
    for link, container in kinds:
        data = damage.kept(packets, network=network, link=link, container=container)
        ours, theirs = judged(data, tmp_path / "some.pcap")
        assert ours == theirs
        assert len(ours.frames) > 10


@pytest.mark.parametrize("network", damage.NETWORKS)
@pytest.mark.parametrize("link", ["ethernet", "raw"])
def test_what_is_cut_off_packets_is_missed_by_both(tmp_path: Path, link: str, network: str) -> None:
    packets = damage.snapped(traffic.packets(traffic.clean(Random(3), connections=2)), Random(3))
    data = damage.kept(packets, network=network, link=link)
    ours, theirs = judged(data, tmp_path / "some.pcapng")
    assert ours == theirs
    told = read_file(data, "some", Options(tables=frozenset({Table.PROBLEMS})))
    kinds = {kind for _, batch in told for kind in batch["kind"].to_pylist()}
    assert {ProblemKind.TRUNCATED_PACKET, ProblemKind.GAP} <= kinds


def test_ports_that_are_used_again_are_another_connection(tmp_path: Path) -> None:
    packets = damage.again(traffic.packets(traffic.clean(Random(5))))
    for chunk_bytes in (1 << 16, 8 << 20):
        ours, theirs = judged(damage.kept(packets), tmp_path / "some.pcapng", chunk_bytes)
        assert ours == theirs


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 9),
    st.sampled_from([each for each in damage.CONTAINERS if "gz" not in each]),
    st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=24), st.integers(0, 24)), max_size=6),
    st.booleans(),
)
def test_whatever_bytes_are_wrong_both_readers_say_the_same(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    container: str,
    wrong: list[tuple[float, bytes, int]],
    is_small: bool,  # noqa: FBT001 - a strategy's value
) -> None:
    packets = traffic.packets(traffic.clean(Random(seed), connections=2, count=5))
    data = bytearray(damage.kept(packets, container=container))
    for where, other, size in wrong:
        at = int(where * len(data))
        data[at : at + size] = other
    path = tmp_path_factory.mktemp("wrong") / "some.pcap"
    ours, theirs = judged(bytes(data), path, 1 << 16 if is_small else 8 << 20)
    assert ours == theirs


@given(st.binary(max_size=400), st.sampled_from([b"", b"\x1f\x8b", *MAGICS, SECTION]))
def test_no_bytes_are_refused(data: bytes, magic: bytes) -> None:
    for table, batch in read_file(magic + data, "any"):
        assert table is Table.PROBLEMS
        assert batch.num_rows


def test_only_what_is_asked_for_comes(tmp_path: Path) -> None:
    made = write(tmp_path, 100_000, connections=5)
    path = made.files[0]
    commits = tables(path, Options(api_keys=frozenset({8}), payload=False))[Table.PAIRS]
    assert commits.num_rows == made.commits
    assert commits["request"].null_count == made.commits
    one = tables(path, Options(clients="10.1.0.2:*"))[Table.PAIRS]
    assert set(one["client"].to_pylist()) == {"10.1.0.2:40000"}
    whole = tables(path, Options())[Table.PAIRS]
    times = whole["ts"].cast(pa.int64()).to_pylist()
    middle = times[len(times) // 2]
    late = tables(path, Options(from_ns=middle * 1000))[Table.PAIRS]
    early = tables(path, Options(until_ns=middle * 1000))[Table.PAIRS]
    assert late.num_rows + early.num_rows == whole.num_rows
    assert min(late["ts"].cast(pa.int64()).to_pylist()) == middle


def test_batches_are_bounded_and_may_be_of_one_api_each(tmp_path: Path) -> None:
    made = write(tmp_path, 200_000, connections=5)
    options = Options(batch_rows=50, batch_bytes=20_000, by_api=True)
    rows = 0
    batches = [each for path in made.files for each in read_file(path.read_bytes(), "a", options)]
    for table, batch in batches:
        if table is Table.PAIRS:
            rows += batch.num_rows
            assert batch.num_rows <= 50
            assert len(set(batch["api_key"].to_pylist())) == 1
            size = sum(batch["request_bytes"].to_pylist()) + sum(
                batch["response_bytes"].to_pylist()
            )
            assert size <= 20_000
    assert rows == made.frames // 2


def test_what_was_read_is_gone_when_it_is_let_go(tmp_path: Path) -> None:
    """What waits for Python's collector of cycles may be a hundred megabytes, file by file."""
    (path,) = write(tmp_path, 50_000, connections=3).files
    reading = Reading("some", Options())
    assert list(reading.of(path.read_bytes()))
    alive = ref(reading)
    lines = ref(reading.connections)
    del reading
    assert alive() is None
    assert lines() is None


def test_a_name_that_is_no_text_is_told_as_text() -> None:
    told = list(read_file(b"junk", "bad\udcff.pcapng"))
    assert [(table, batch["file"].to_pylist()) for table, batch in told] == [
        (Table.PROBLEMS, ["bad\\udcff.pcapng"])
    ]
