"""The connection index of files, and the columnar reader; see also `test_loading`."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import TYPE_CHECKING

from kafkalite.capture.model import ProblemKind
from kafkalite.lab.replay.columnar_loading import index_connections, read_exchanges
from tests.captures import damage, traffic

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kafkalite.capture.model import Problem
    from kafkalite.lab.replay.columnar_loading import ConnectionIndex
    from tests.captures.damage import TcpPacket


def packets(seed: int = 1) -> list[TcpPacket]:
    return list(traffic.packets(traffic.clean(Random(seed))))  # noqa: S311 - must be repeatable


def write_files(directory: Path, *parts: Sequence[TcpPacket]) -> list[str]:
    paths = [directory / f"part-{number}.pcapng" for number in range(len(parts))]
    for path, part in zip(paths, parts, strict=True):
        path.write_bytes(damage.capture_file(part))
    return list(map(str, paths))


def index_of(files: Sequence[str]) -> ConnectionIndex:
    index = index_connections(files)
    assert index is not None
    return index


def test_files_are_ordered_by_time_not_by_name(tmp_path: Path) -> None:
    all_packets = packets()
    half = len(all_packets) // 2
    late, early = write_files(tmp_path, all_packets[half:], all_packets[:half])

    assert list(index_of([late, early]).files) == [early, late]


def test_connection_continued_in_another_file_is_one_connection(tmp_path: Path) -> None:
    all_packets = packets()
    half = len(all_packets) // 2
    one = index_of(write_files(tmp_path, all_packets))
    two = index_of(write_files(tmp_path, all_packets[:half], all_packets[half:]))

    def endpoints(index: ConnectionIndex) -> set[str]:
        return {str(connection) for connection in index.connections.values()}

    assert endpoints(one) == endpoints(two)
    assert not one.continued
    assert {file for file, _ in two.continued} == {two.files[1]}
    # It is not reported as a connection without its beginning either.
    problems: list[Problem] = []
    list(read_exchanges(two, problems.append))
    assert ProblemKind.MID_CONNECTION not in {problem.kind for problem in problems}


def test_files_with_the_same_part_of_a_connection_are_not_surveyed(tmp_path: Path) -> None:
    assert index_connections(write_files(tmp_path, packets(), packets())) is None


def test_positions_count_the_exchanges_of_a_connection(tmp_path: Path) -> None:
    index = index_of(write_files(tmp_path, packets()))
    positions: defaultdict[int, list[int]] = defaultdict(list)
    for exchange in read_exchanges(index, lambda _: None):
        positions[exchange.connection.number].append(exchange.position)

    assert len(positions) > 1
    assert all(found == list(range(len(found))) for found in positions.values())
