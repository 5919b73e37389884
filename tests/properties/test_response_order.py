"""The order in which a capture has the packets of both directions does not change the pairs."""

# ruff: noqa: S311 - captures must be reproducible

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import accumulate
from operator import itemgetter
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalite.capture.model import Endpoint
from kafkalite.capture.reading.captures import exchanges, read
from kafkalite.capture.reading.problems import Problems
from kafkalite.lab.columnar import tables
from kafkalite.lab.columnar.exchanges.stitching import stitch
from kafkalite.lab.columnar.files import chunked_files
from kafkalite.lab.columnar.files.file_parts import split_file
from kafkalite.lab.columnar.options import Options, Table
from kafkalite.lab.columnar.reading import read_file
from kafkalite.protocol import codec
from tests.captures import damage, traffic
from tests.unit.frames import framed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.captures.damage import TcpPacket

Pairs = Counter[tuple[bytes, bytes | None]]

IDS: dict[str, Callable[[int], int]] = {
    "increasing": lambda number: number,
    "equal": lambda _: 7,
    "repeated": lambda number: number % 3,
}
"""How a client chooses its correlation ids: function of the number of the request."""
SCHEMAS = {
    Table.PAIRS: tables.PAIRS,
    Table.CONNECTIONS: tables.CONNECTIONS,
    Table.FRAGMENTS: tables.FRAGMENTS,
    Table.UNPAIRED: tables.UNPAIRED,
    Table.PROBLEMS: tables.PROBLEMS,
}


class Capture(NamedTuple):
    """Packets in the order of a capture, and the pairs of the connection."""

    packets: list[TcpPacket]
    pairs: Pairs


def build(ids: str, window: int, unanswered: Sequence[bool]) -> tuple[list[TcpPacket], Pairs]:
    """Return the packets of a client that waits with at most `window` open requests."""
    tcp = damage.TcpConnection(Endpoint("10.0.0.1", 40_000), traffic.BROKER, traffic.START_NS)
    pairs: Pairs = Counter()
    open_responses: list[bytes] = []
    at_ns = traffic.START_NS
    for number, has_no_response in enumerate(unanswered):
        at_ns += traffic.MS
        correlation_id = IDS[ids](number)
        if has_no_response:
            message = traffic.produce_request(0, b"%d" % number)
            request = traffic.request_frame(0, 9, correlation_id, message)
            pairs[request, None] += 1
        else:
            message = traffic.commit_request(f"g{number}", number)
            request = traffic.request_frame(8, 8, correlation_id, message)
            answer = codec.response_class(traffic.OFFSET_COMMIT)(throttle_time_ms=number)
            open_responses.append(traffic.response_frame(8, 8, correlation_id, answer))
            pairs[request, open_responses[-1]] += 1
        tcp.request(at_ns, framed(request))
        if len(open_responses) >= window:
            tcp.response(at_ns + 100, framed(open_responses.pop(0)))
    for number, response in enumerate(open_responses):
        tcp.response(at_ns + traffic.MS + number, framed(response))
    tcp.close(at_ns + 2 * traffic.MS)
    return tcp.packets, pairs


@st.composite
def captures(draw: st.DrawFn) -> Capture:
    packets, pairs = build(
        draw(st.sampled_from([*IDS])),
        draw(st.integers(1, 4)),
        draw(st.lists(st.sampled_from([False, False, False, True]), min_size=1, max_size=9)),
    )
    opening, ending = packets[:3], packets[-3:]
    requests, responses = sides(packets, draw(st.sampled_from([20, 50, 5000])))
    mixed = []
    while requests and responses:
        mixed.append(draw(st.sampled_from([requests, responses])).pop(0))
    mixed += requests + responses
    if draw(st.booleans()):
        times = sorted(each.at_ns for each in mixed)
        mixed = [replace(each, at_ns=at_ns) for each, at_ns in zip(mixed, times, strict=True)]
    return Capture([*opening, *mixed, *ending], pairs)


def sides(packets: list[TcpPacket], segment_bytes: int) -> tuple[list[TcpPacket], list[TcpPacket]]:
    """Return the packets with data of the client, and of the broker."""
    data = [each for each in packets if each.payload]
    data = damage.segment(data, Random(0), segment_bytes)
    client = packets[0].source
    by_client = [each for each in data if each.source == client]
    return by_client, [each for each in data if each.source != client]


def with_early_responses(random: Random) -> Capture:
    """Return a connection whose responses are captured up to five packets too early."""
    unanswered = [random.random() < 0.1 for _ in range(60)]
    packets, pairs = build("increasing", random.randint(1, 3), unanswered)
    opening, ending = packets[:3], packets[-3:]
    requests, responses = sides(packets, random.choice([50, 5000]))
    in_order = sorted([*requests, *responses], key=lambda packet: packet.at_ns)
    index = {id(each): number for number, each in enumerate(in_order)}
    places = accumulate((index[id(each)] - random.randint(0, 5) for each in responses), max)
    early = zip(places, responses, strict=True)
    on_time = ((index[id(each)] + 0.5, each) for each in requests)
    mixed = [each for _, each in sorted([*early, *on_time], key=itemgetter(0))]
    return Capture([*opening, *mixed, *ending], pairs)


def pairs_by_rows(data: Sequence[bytes], directory: Path) -> tuple[Pairs, Problems]:
    """Return the result of the scalar reader."""
    problems = Problems()
    paths = [directory / f"{number}.pcapng" for number in range(len(data))]
    for path, content in zip(paths, data, strict=True):
        path.write_bytes(content)
    found = list(exchanges(read(paths, problems), problems))
    assert all(each.answered_ns is None or each.answered_ns >= each.sent_ns for each in found)
    return Counter((each.request, each.response) for each in found), problems


def pairs_in_columns(
    files: Sequence[bytes], chunk_bytes: int, part_bytes: int | None = None
) -> tuple[Pairs, list[Any]]:
    """Return the stitched result of the columnar reader, which reads files or parts of files."""
    rows: dict[Table, list[pa.RecordBatch]] = {table: [] for table in SCHEMAS}
    options = Options(chunk_bytes=chunk_bytes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunked_files, "_MIN_CHUNK_BYTES", 1)
        for number, data in enumerate(files):
            parts = [None] if part_bytes is None else split_file(data, part_bytes)
            for part in parts:
                for table, batch in read_file(data, f"{number}", options, part):
                    rows[table].append(batch)
    whole = {table: pa.Table.from_batches(rows[table], each) for table, each in SCHEMAS.items()}
    more = stitch(whole[Table.CONNECTIONS], whole[Table.FRAGMENTS], whole[Table.UNPAIRED])
    pairs = pa.concat_tables([whole[Table.PAIRS], more.pairs])
    latencies = pairs["latency_us"].drop_null().to_pylist()
    assert all(latency >= 0 for latency in latencies)
    columns = (pairs[name].to_pylist() for name in ("request", "response"))
    problems = [*whole[Table.PROBLEMS].to_pylist(), *more.problems.to_pylist()]
    return Counter(zip(*columns, strict=True)), problems


@settings(max_examples=40)
@given(captures(), st.sampled_from([300, 1000, 1 << 20]))
def test_any_order_of_the_directions_gives_the_same_pairs(
    tmp_path_factory: pytest.TempPathFactory, capture: Capture, chunk_bytes: int
) -> None:
    data = [damage.capture_file(capture.packets)]
    by_rows, problems = pairs_by_rows(data, tmp_path_factory.mktemp("order"))
    assert (by_rows, list(problems)) == (capture.pairs, [])
    assert pairs_in_columns(data, chunk_bytes) == (capture.pairs, [])


@pytest.mark.parametrize("seed", range(8))
def test_parts_of_a_file_have_the_pairs_of_the_file(seed: int) -> None:
    random = Random(seed)
    capture = with_early_responses(random)
    data = [damage.capture_file(capture.packets)]
    assert pairs_in_columns(data, 1 << 20, random.randint(1500, 4000)) == (capture.pairs, [])


@pytest.mark.parametrize("seed", range(8))
def test_files_of_one_connection_have_the_pairs_of_one_file(seed: int) -> None:
    random = Random(seed)
    capture = with_early_responses(random)
    cut = random.randint(20, len(capture.packets) - 20)
    files = [damage.capture_file(each) for each in (capture.packets[:cut], capture.packets[cut:])]
    assert pairs_in_columns(files, 1 << 20)[0] == capture.pairs


def test_early_response_without_request_is_not_paired_with_an_equal_id() -> None:
    """The capture begins with a response, and each request has the same correlation id."""
    packets, pairs = build("equal", 1, [False] * 6)
    data = [each for each in packets if each.payload][1:]
    expected = +(pairs - Counter([next(iter(pairs))]))
    found, _ = pairs_in_columns([damage.capture_file(data)], 1 << 20)
    assert found == expected


@pytest.mark.parametrize("seed", range(4))
def test_bare_tokens_of_sasl_can_follow_their_answers(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    tcp = damage.TcpConnection(Endpoint("10.0.0.1", 40_000), traffic.BROKER, traffic.START_NS)
    accepted = codec.response_class(traffic.SASL_HANDSHAKE)(mechanisms=["PLAIN"])
    handshake = codec.request_class(traffic.SASL_HANDSHAKE)(mechanism="PLAIN")
    answer = codec.response_class(traffic.OFFSET_COMMIT)()
    exchanges_of_client = [
        (
            traffic.request_frame(traffic.SASL_HANDSHAKE, 0, 1, handshake),
            traffic.response_frame(traffic.SASL_HANDSHAKE, 0, 1, accepted),
        ),
        (b"n,,n=user,r=abc", b"r=abcdef,s=xyz,i=4096"),
        (b"c=biws,r=abcdef,p=xyz", b""),
        (
            traffic.request_frame(8, 8, 2, traffic.commit_request("g", 1)),
            traffic.response_frame(8, 8, 2, answer),
        ),
    ]
    for number, (request, response) in enumerate(exchanges_of_client):
        tcp.request(traffic.START_NS + 2 * number, framed(request))
        tcp.response(traffic.START_NS + 2 * number + 1, framed(response))
    requests, responses = sides(tcp.packets, 5000)
    mixed = [each for pair in zip(requests, responses, strict=True)
             for each in random.sample(pair, 2)]  # fmt: skip
    data = [damage.capture_file([*tcp.packets[:3], *mixed])]
    expected = Counter(exchanges_of_client[number] for number in (0, 3))
    by_rows, problems = pairs_by_rows(data, tmp_path)
    assert (by_rows, list(problems)) == (expected, [])
    assert pairs_in_columns(data, 1 << 20) == (expected, [])
