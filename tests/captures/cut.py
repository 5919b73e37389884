"""A capture cut into files wherever that falls: within connections, exchanges, and frames."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from tests.captures.damage import crumbled, kept
from tests.captures.traffic import clean, packets

if TYPE_CHECKING:
    from pathlib import Path


def cut(folder: Path, files: int = 4, connections: int = 4, count: int = 40) -> list[Path]:
    """Write one capture's packets, small as they come over slow links, to several files."""
    chance = Random(7)  # noqa: S311 - the same in every run
    wired = crumbled(packets(clean(chance, connections, count)), chance)
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number in range(files):
        first, last = (len(wired) * each // files for each in (number, number + 1))
        path = folder / f"part-{number}.pcapng"
        path.write_bytes(kept(wired[first:last]))
        paths.append(path)
    return paths
