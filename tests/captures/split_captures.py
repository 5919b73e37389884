"""A capture split into files at any position: within connections, exchanges and frames."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from tests.captures.damage import capture_file, split_randomly
from tests.captures.traffic import clean, packets

if TYPE_CHECKING:
    from pathlib import Path


def split_capture(
    folder: Path, files: int = 4, connections: int = 4, count: int = 40
) -> list[Path]:
    """Write the small packets of one capture to several files."""
    chance = Random(7)  # noqa: S311 - the same in every run
    tcp_packets = split_randomly(packets(clean(chance, connections, count)), chance)
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number in range(files):
        start, end = (len(tcp_packets) * index // files for index in (number, number + 1))
        path = folder / f"part-{number}.pcapng"
        path.write_bytes(capture_file(tcp_packets[start:end]))
        paths.append(path)
    return paths
