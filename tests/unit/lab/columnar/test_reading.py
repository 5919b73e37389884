"""Captures read in columns equal the written exchanges, and the result of the scalar reader."""

# ruff: noqa: S311 - random damage must be reproducible

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING
from weakref import ref

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalite.capture.formats.pcap import MAGICS
from kafkalite.capture.formats.pcapng_reader import MAGIC as SECTION
from kafkalite.capture.model import Direction, Endpoint, ProblemKind
from kafkalite.capture.reading import pairing
from kafkalite.capture.reading.captures import exchanges, read
from kafkalite.capture.reading.problems import Problems
from kafkalite.lab.columnar.files import chunked_files
from kafkalite.lab.columnar.options import Options, Table
from kafkalite.lab.columnar.reading import CaptureReader, read_file
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.captures import damage, traffic
from tests.perf.big_capture import write
from tests.unit.frames import request_frame, response_frame
from tests.unit.lab.columnar.captures import columnar, scalar

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.captures.damage import TcpPacket
    from tests.unit.lab.columnar.captures import Contents

pytestmark = pytest.mark.endurance


def tables(path: Path, options: Options) -> dict[Table, pa.Table]:
    found: dict[Table, list[pa.RecordBatch]] = {}
    with path.open("rb") as file:
        for table, batch in read_file(file, path.name, options):
            found.setdefault(table, []).append(batch)
    return {table: pa.Table.from_batches(batches) for table, batches in found.items()}


@pytest.mark.parametrize("chunk_bytes", [1 << 16, 8 << 20])
def test_all_exchanges_of_several_files_are_found(tmp_path: Path, chunk_bytes: int) -> None:
    made = write(tmp_path, 700_000, connections=7, file_bytes=300_000)
    pairs = [tables(path, Options(chunk_bytes=chunk_bytes))[Table.PAIRS] for path in made.files]
    both = pa.concat_tables(pairs)
    assert len(made.files) > 2
    assert both.num_rows == made.frames // 2
    assert sum(key == 8 for key in both["api_key"].to_pylist()) == made.commits
    assert both["response"].null_count == 0
    assert len(set(both["connection"].to_pylist())) == 7


def read_both(data: bytes, path: Path, chunk_bytes: int = 8 << 20) -> tuple[Contents, Contents]:
    return columnar(data, str(path), chunk_bytes), scalar(data, path)


@pytest.mark.parametrize("chunk_bytes", [1 << 16, 8 << 20])
@pytest.mark.parametrize("name", [*damage.HARMLESS, *damage.LOSSY])
def test_columnar_reader_equals_scalar_reader_for_damaged_captures(
    tmp_path: Path, name: str, chunk_bytes: int
) -> None:
    apply_damage = {**damage.HARMLESS, **damage.LOSSY}[name]
    seed = chunk_bytes % 7
    packets = apply_damage(
        traffic.packets(traffic.clean(Random(seed), connections=2)), Random(seed)
    )
    by_columns, by_rows = read_both(
        damage.capture_file(packets), tmp_path / "some.pcapng", chunk_bytes
    )
    assert by_columns == by_rows


@pytest.mark.parametrize("name", [*damage.HARMLESS, *damage.LOSSY])
def test_readers_are_equal_for_many_seeds(tmp_path: Path, name: str) -> None:
    apply_damage = {**damage.HARMLESS, **damage.LOSSY}[name]
    for seed in range(10):
        packets = traffic.packets(traffic.clean(Random(seed), connections=2, count=8))
        data = damage.capture_file(apply_damage(packets, Random(seed)))
        by_columns, by_rows = read_both(data, tmp_path / "some.pcapng", 1 << 16)
        assert by_columns == by_rows, seed


@pytest.mark.parametrize("cuts", [[], [9], [9, 18], [20]])
def test_response_before_its_request_in_the_file_is_paired(tmp_path: Path, cuts: list[int]) -> None:
    talk = damage.TcpConnection(Endpoint("10.0.0.2", 40_000), traffic.BROKER, 1_000)
    request = request_frame(HeartbeatRequest(group_id="g"), 4)
    for start, stop in pairwise([0, *cuts, len(request)]):
        talk.request(2_000_000, request[start:stop])
    talk.response(3_000_000, response_frame(HeartbeatResponse(), 4))
    *before, last, response = (each for each in talk.packets if each.payload)
    packets = [*talk.packets[:3], *before, response, last]
    by_columns, by_rows = read_both(damage.capture_file(packets), tmp_path / "some.pcapng")
    assert by_columns == by_rows


@pytest.mark.parametrize("network", damage.NETWORKS)
def test_readers_are_equal_for_all_networks_links_and_containers(
    tmp_path: Path, network: str
) -> None:
    packets = traffic.packets(traffic.clean(Random(3), connections=2, count=4))
    kinds = [(link, "pcapng") for link in damage.LINKS]
    kinds += [("ethernet", container) for container in damage.CONTAINERS]
    for link, container in kinds:
        data = damage.capture_file(packets, network=network, link=link, container=container)
        by_columns, by_rows = read_both(data, tmp_path / "some.pcap")
        assert by_columns == by_rows
        assert len(by_columns.frames) > 10


@pytest.mark.parametrize("network", damage.NETWORKS)
@pytest.mark.parametrize("link", ["ethernet", "raw"])
def test_truncated_packets_give_the_same_gaps(tmp_path: Path, link: str, network: str) -> None:
    packets = damage.truncate(traffic.packets(traffic.clean(Random(3), connections=2)), Random(3))
    data = damage.capture_file(packets, network=network, link=link)
    by_columns, by_rows = read_both(data, tmp_path / "some.pcapng")
    assert by_columns == by_rows
    batches = read_file(data, "some", Options(tables=frozenset({Table.PROBLEMS})))
    kinds = {kind for _, batch in batches for kind in batch["kind"].to_pylist()}
    assert {ProblemKind.TRUNCATED_PACKET, ProblemKind.GAP} <= kinds


def test_reused_ports_are_another_connection(tmp_path: Path) -> None:
    packets = damage.repeat_connections(traffic.packets(traffic.clean(Random(5))))
    for chunk_bytes in (1 << 16, 8 << 20):
        by_columns, by_rows = read_both(
            damage.capture_file(packets), tmp_path / "some.pcapng", chunk_bytes
        )
        assert by_columns == by_rows


@pytest.mark.parametrize("seed", range(4))
def test_ports_that_are_reused_after_lost_packets_are_another_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """The second connection opens in another chunk than the one with its first frame."""
    monkeypatch.setattr(chunked_files, "_MIN_CHUNK_BYTES", 1)
    random = Random(seed)
    packets = traffic.packets(traffic.clean(random, connections=2, count=6))
    packets = damage.retransmit_late(damage.repeat_connections(packets), random)
    by_columns, by_rows = read_both(damage.capture_file(packets), tmp_path / "some.pcapng", 1000)
    assert by_columns == by_rows


@pytest.mark.parametrize("chunk_bytes", [2000, 8 << 20])
@pytest.mark.parametrize("distance", [4, 60])
def test_all_packets_of_the_clients_can_be_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, distance: int, chunk_bytes: int
) -> None:
    """Another queue has the packets of the brokers; also SYN comes after its answer."""
    monkeypatch.setattr(chunked_files, "_MIN_CHUNK_BYTES", 1)
    generated = traffic.clean(Random(1), connections=4, count=10)
    in_order = list(enumerate(traffic.packets(generated)))
    late = [
        (place + distance * (packet.source != traffic.BROKER), place, packet)
        for place, packet in in_order
    ]
    packets = [packet for _, _, packet in sorted(late, key=lambda entry: entry[:2])]
    by_columns, by_rows = read_both(
        damage.capture_file(packets), tmp_path / "some.pcapng", chunk_bytes
    )
    assert by_columns == by_rows
    responses = sum(len(each.frames[Direction.RESPONSE]) for each in generated)
    assert sum(pair[10] is not None for pair in by_columns.exchanges.elements()) == responses


@pytest.mark.parametrize(
    ("chunk_bytes", "distance"), [(1 << 16, 50), (8 << 20, 50), (8 << 20, 400)]
)
@pytest.mark.parametrize("seed", range(3))
def test_readers_are_equal_for_packets_far_out_of_order(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    chunk_bytes: int,
    distance: int,
) -> None:
    """Openings and ends of connections are also out of order, and in other chunks than the rest."""
    monkeypatch.setattr(chunked_files, "_MIN_CHUNK_BYTES", 1)
    random = Random(seed)
    packets = traffic.packets(traffic.clean(random, connections=2, count=10))
    packets = damage.shuffle_queues(packets, random, distance)
    packets = damage.repeat_connections(packets, gap_ns=0) if seed % 2 else packets
    by_columns, by_rows = read_both(
        damage.capture_file(packets), tmp_path / "some.pcapng", chunk_bytes
    )
    assert by_columns == by_rows


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 9),
    st.sampled_from([each for each in damage.CONTAINERS if each not in damage.COMPRESSED]),
    st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=24), st.integers(0, 24)), max_size=6),
    st.booleans(),
)
def test_readers_are_equal_for_corrupt_bytes(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    container: str,
    wrong: list[tuple[float, bytes, int]],
    is_small: bool,  # noqa: FBT001 - a strategy's value
) -> None:
    packets = traffic.packets(traffic.clean(Random(seed), connections=2, count=5))
    data = bytearray(damage.capture_file(packets, container=container))
    for where, other, size in wrong:
        at = int(where * len(data))
        data[at : at + size] = other
    path = tmp_path_factory.mktemp("wrong") / "some.pcap"
    by_columns, by_rows = read_both(bytes(data), path, 1 << 16 if is_small else 8 << 20)
    assert by_columns == by_rows


@pytest.mark.parametrize("container", damage.COMPRESSED)
def test_readers_are_equal_for_a_cut_compressed_capture(tmp_path: Path, container: str) -> None:
    packets = traffic.packets(traffic.clean(Random(3), connections=4))
    data = damage.capture_file(packets, container=container)
    by_columns, by_rows = read_both(data[: 9 * len(data) // 10], tmp_path / "some.pcap")
    assert by_columns == by_rows
    whole = columnar(data, "some.pcap", 8 << 20)
    assert by_columns.frames.total() > whole.frames.total() / 2


@given(st.binary(max_size=400), st.sampled_from([b"", b"\x1f\x8b", *MAGICS, SECTION]))
def test_arbitrary_bytes_give_problems_and_no_exception(data: bytes, magic: bytes) -> None:
    for table, batch in read_file(magic + data, "any"):
        assert table is Table.PROBLEMS
        assert batch.num_rows


def test_filters_select_api_client_and_time(tmp_path: Path) -> None:
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


def test_batches_are_limited_and_can_have_one_api_each(tmp_path: Path) -> None:
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


def test_reading_is_freed_without_the_cycle_collector(tmp_path: Path) -> None:
    """A reading can hold a hundred megabytes per file until the collector runs."""
    (path,) = write(tmp_path, 50_000, connections=3).files
    reading = CaptureReader("some", Options())
    assert list(reading.read_all(path.read_bytes()))
    alive = ref(reading)
    connections = ref(reading.connections)
    del reading
    assert alive() is None
    assert connections() is None


def test_file_name_with_invalid_utf8_is_escaped() -> None:
    batches = list(read_file(b"junk", "bad\udcff.pcapng"))
    assert [(table, batch["file"].to_pylist()) for table, batch in batches] == [
        (Table.PROBLEMS, ["bad\\udcff.pcapng"])
    ]


Jump = tuple[str, int | None, int]

SECOND_NS = 1_000_000_000


def set_back(packets: Sequence[TcpPacket], random: Random, times: int) -> list[TcpPacket]:
    """Set the clock back several times, by seconds or by less than is reported."""
    steps = dict.fromkeys(random.sample(range(1, len(packets)), times), 0)
    found, late = [], 0
    for number, packet in enumerate(packets):
        if number in steps:
            late += random.choice([SECOND_NS // 2, 3 * SECOND_NS, 3 * SECOND_NS, 900 * SECOND_NS])
        found.append(replace(packet, at_ns=packet.at_ns - late))
    return found


def jumps_of_columnar_reader(data: bytes, path: Path, chunk_bytes: int) -> list[Jump]:
    jumps = []
    for table, batch in read_file(data, str(path), Options(chunk_bytes=chunk_bytes)):
        if table is Table.PROBLEMS:
            jumps += [
                (row["detail"], row["offset"], row["count"])
                for row in batch.to_pylist()
                if row["kind"] == ProblemKind.CLOCK_JUMP
            ]
    return jumps


def jumps_of_scalar_reader(data: bytes, path: Path) -> list[Jump]:
    path.write_bytes(data)
    problems = Problems()
    for _ in read([path], problems):
        pass
    return [
        (each.detail, each.offset, each.count)
        for each in problems
        if each.kind is ProblemKind.CLOCK_JUMP
    ]


@pytest.mark.parametrize(
    ("container", "damage_name"),
    [
        *((container, "without acknowledgements") for container in damage.CONTAINERS),
        *(("pcapng", damage_name) for damage_name in ("reordered", "disordered queues")),
    ],
)
def test_readers_report_the_same_clock_jumps(
    tmp_path: Path, container: str, damage_name: str
) -> None:
    random = Random(f"{container} {damage_name}")
    packets = traffic.packets(traffic.clean(random, connections=4, count=60))
    packets = set_back(damage.DAMAGES[damage_name](packets, random), random, times=9)
    data = damage.capture_file(packets, container=container)
    path = tmp_path / "some.pcap"
    jumps = jumps_of_scalar_reader(data, path)
    # Simple packet blocks have no timestamps.
    assert bool(jumps) == ("simple" not in container)
    for chunk_bytes in (1 << 16, 8 << 20):
        assert jumps_of_columnar_reader(data, path, chunk_bytes) == jumps


@pytest.mark.parametrize("seed", range(4))
def test_bytes_are_not_readable_before_earlier_bytes(tmp_path: Path, seed: int) -> None:
    """The clock is set back by less than the wait for missing segments, or by more."""
    random = Random(seed)
    packets = traffic.packets(traffic.clean(random, connections=4, count=20))
    data = damage.capture_file(set_back(packets, random, times=5))
    expected = scalar(data, tmp_path / "some.pcapng")
    for chunk_bytes in (1 << 16, 8 << 20):
        found = columnar(data, str(tmp_path / "some.pcapng"), chunk_bytes)
        assert found == expected


def test_increasing_times_are_no_problem(tmp_path: Path) -> None:
    packets = traffic.packets(traffic.clean(Random(1)))
    assert jumps_of_columnar_reader(damage.capture_file(packets), tmp_path / "a", 1 << 16) == []


def test_open_requests_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 20_000
    monkeypatch.setattr(pairing, "MAX_PENDING_REQUEST_BYTES", limit)
    packets = traffic.packets(traffic.clean(Random(3), connections=2, count=300))
    without_responses = [
        each for each in packets if each.source != traffic.BROKER or not each.payload
    ]
    path = tmp_path / "some.pcapng"
    path.write_bytes(damage.capture_file(without_responses))
    most_bytes = 0
    reader = CaptureReader(path.name, Options(chunk_bytes=1 << 14))
    requests: list[int] = []
    problems: list[str] = []
    for table, batch in reader.read_all(path.read_bytes()):
        frames, _ = reader.exchange_batches.open_frames()
        most_bytes = max(most_bytes, int(frames.size.sum()))
        if table in {Table.PAIRS, Table.UNPAIRED}:
            requests += batch["correlation_id"].to_pylist()
        elif table is Table.PROBLEMS:
            problems += batch["kind"].to_pylist()
    assert sorted(requests) == sorted([*range(300)] * 2)
    assert ProblemKind.TOO_MANY_OPEN in problems
    assert limit // 4 < most_bytes <= limit + max(len(each.payload) for each in packets)


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("MAX_PENDING_REQUEST_BYTES", 20_000),
        ("MAX_PENDING_REQUEST_BYTES", 1_000),
        ("MAX_PENDING_REQUESTS", 7),
    ],
)
@pytest.mark.parametrize("chunk_bytes", [1 << 12, 1 << 20])
def test_requests_of_a_connection_without_responses_are_dropped_as_by_the_other_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, limit: int, chunk_bytes: int
) -> None:
    monkeypatch.setattr(pairing, name, limit)
    packets = traffic.packets(traffic.clean(Random(5), connections=2, count=200))
    silent = packets[0].target if packets[0].source == traffic.BROKER else packets[0].source
    captured = [
        each
        for each in packets
        if not each.payload or each.source != traffic.BROKER or each.target != silent
    ]
    data, path = damage.capture_file(captured), tmp_path / "some.pcapng"
    expected, found = scalar(data, path), columnar(data, str(path), chunk_bytes)
    answered = sum(each[-1] is not None for each in expected.exchanges.elements())
    assert 100 < answered <= 200
    assert found == expected
    of_columns, of_events = problem_counts(data, path, chunk_bytes)
    dropped = of_events[ProblemKind.TOO_MANY_OPEN]
    assert of_columns[ProblemKind.TOO_MANY_OPEN] == dropped > 100


@pytest.mark.parametrize(
    ("limit", "answered"), [(pairing.MAX_WAITING_RESPONSE_BYTES, 323), (4_000, 82), (500, 4)]
)
@pytest.mark.parametrize("chunk_bytes", [1 << 12, 1 << 20])
def test_responses_before_their_requests_are_dropped_as_by_the_other_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, answered: int, chunk_bytes: int
) -> None:
    monkeypatch.setattr(pairing, "MAX_WAITING_RESPONSE_BYTES", limit)
    packets = traffic.packets(traffic.clean(Random(5), connections=2, count=200))
    late = sorted(
        enumerate(packets),
        key=lambda each: each[0] + 30 * (each[1].target == traffic.BROKER),
    )
    data, path = damage.capture_file([each for _, each in late]), tmp_path / "some.pcapng"
    expected, found = scalar(data, path), columnar(data, str(path), chunk_bytes)
    assert found == expected
    assert sum(each[-1] is not None for each in expected.exchanges.elements()) == answered
    of_columns, of_events = problem_counts(data, path, chunk_bytes)
    assert of_columns[ProblemKind.NO_REQUEST] == of_events[ProblemKind.NO_REQUEST]


def problem_counts(data: bytes, path: Path, chunk_bytes: int) -> tuple[Counter[str], Counter[str]]:
    """Return the number of problems of each kind, by the columnar reader and the other one."""
    of_columns: Counter[str] = Counter()
    for table, batch in read_file(data, str(path), Options(chunk_bytes=chunk_bytes)):
        if table is Table.PROBLEMS:
            for kind, count in zip(
                *(batch[name].to_pylist() for name in ("kind", "count")), strict=True
            ):
                of_columns[kind] += count
    of_events: Counter[str] = Counter()
    [*exchanges(read([path], lambda _: None), lambda each: of_events.update([each.kind]))]
    return of_columns, of_events
