"""Stores the tables of the scoreboards: `python -m tests.conformance.scoreboard [CLIENT...]`.

Prints the differences that are not listed, and the methods and options without a cell.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.conformance.scoreboard.brokers import brokers
from tests.conformance.scoreboard.cells import compare, rows_of, store_rows, uncovered
from tests.conformance.scoreboard.clients import CLIENTS
from tests.conformance.scoreboard.differences import EXCLUDED


def main(names: list[str]) -> None:
    """Run the sweeps of these clients, or of all, and store their tables."""
    for client in CLIENTS:
        if names and client.name not in names:
            continue
        with TemporaryDirectory() as directory:
            with brokers(Path(directory)) as pair:
                real, emulated = pair.run(client.sweep)
            store_rows(client.name, rows_of(real))
            for line in uncovered(real, EXCLUDED[client.name]):
                sys.stdout.write(f"{client.name}: no cell for {line}\n")
            for line in compare(client.name, real, emulated):
                sys.stdout.write(f"{client.name}: {line}\n")


main(sys.argv[1:])
