"""Capture files read in columns say what was written into them, and what the scalar reader says."""

# ruff: noqa: S311 - damage is to be repeatable
from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from kafkalite.columnar.options import Options, Table
from kafkalite.columnar.reading import read_file
from tests.captures import damage, traffic
from tests.perf.big_capture import write
from tests.unit.columnar.captures import columnar, scalar

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
    for seed in range(2):
        packets = harm(traffic.packets(traffic.clean(Random(seed))), Random(seed))
        ours, theirs = judged(damage.kept(packets), tmp_path / "some.pcapng", chunk_bytes)
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


def test_ports_that_are_used_again_are_another_connection(tmp_path: Path) -> None:
    packets = damage.again(traffic.packets(traffic.clean(Random(5))))
    for chunk_bytes in (1 << 16, 8 << 20):
        ours, theirs = judged(damage.kept(packets), tmp_path / "some.pcapng", chunk_bytes)
        assert ours == theirs
