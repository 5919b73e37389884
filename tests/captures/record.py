"""Records the corpus again: `python -m tests.captures.record [NAME ...]`.

Each session has its own Apache Kafka, with `kafkalite capture` in front of it. The gzipped capture
is stored next to this file.
"""

from __future__ import annotations

import gzip
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.captures.sessions import SESSIONS, Scene
from tests.captures.warm_up import warm_up
from tests.clients.served_proxy import ServedProxy
from tests.oracle.real_kafka import RealKafka

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.captures.sessions import Session

CORPUS = Path(__file__).parent / "kafka-4.3.1"


def path_of(session: Session) -> Path:
    """Return the path of a session's capture."""
    return CORPUS / f"{session.name}.pcapng.gz"


def record(session: Session, directory: Path) -> bytes:
    """Run a session, and return its capture."""
    kafka = RealKafka(directory / "kafka", session.config)
    kafka.start()
    try:
        warm_up(kafka.bootstrap)
        proxy = ServedProxy(kafka, directory)
        proxy.open()
        try:
            session.run(Scene(proxy, directory))
        finally:
            proxy.close()
    finally:
        kafka.kill()
    (capture,) = proxy.captures.iterdir()
    return capture.read_bytes()


def main(names: Sequence[str]) -> None:
    """Record the sessions with these names, or all sessions."""
    CORPUS.mkdir(exist_ok=True)
    for session in SESSIONS:
        if names and session.name not in names:
            continue
        with tempfile.TemporaryDirectory() as directory:
            data = record(session, Path(directory))
        packed = gzip.compress(data, mtime=0)
        path_of(session).write_bytes(packed)
        sys.stdout.write(f"{session.name}: {len(data)} bytes, {len(packed)} gzipped\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
