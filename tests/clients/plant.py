"""A plant of Connect workers: the lines of files that grow go to one topic, and on to another.

Each file has a connector of one task; a mirror connector of several tasks makes the copies.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, cast

from tests.clients.committed import CommittedReader
from tests.clients.connect import Worker
from tests.clients.observer import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.oracle.target import Target

LINES, COPY = "lines", "here.lines"
PARTITIONS = 3
MIRROR = "mirror"
CONNECTORS = ("first", "second", MIRROR)
PATIENCE_S = 120.0
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
# Transactions are open most of the time, so that a disturbance seldom misses one.
_ONCE = {
    "exactly.once.support": "required",
    "transaction.boundary": "interval",
    "transaction.boundary.interval.ms": "200",
}
_FENCED = rb"Finished fencing out %d task producers for source connector mirror"


class Files:
    """Files to which lines are added, each line unlike all others."""

    def __init__(self, directory: Path, names: tuple[str, ...]) -> None:
        self._paths = {name: directory / f"{name}.txt" for name in names}
        self._written: set[str] = set()
        self._lock = threading.Lock()
        for path in self._paths.values():
            path.touch()

    def path(self, name: str) -> str:
        return str(self._paths[name])

    def add(self, count: int) -> None:
        """Add so many lines to each file."""
        for name, path in self._paths.items():
            with self._lock, path.open("a") as file:
                first = len(self._written)
                lines = [f"{name} {number}" for number in range(first, first + count)]
                file.write("".join(f"{line}\n" for line in lines))
                self._written.update(lines)

    @property
    def lines(self) -> set[str]:
        """Return what was written so far."""
        with self._lock:
            return set(self._written)


class Plant:
    """A broker, workers, the files they read and who reads what they write."""

    def __init__(self, target: Target, directory: Path, files: Files, workers: int) -> None:
        self.target = target
        self.files = files
        self.repairs = 0
        self.workers = [
            Worker(target.bootstrap, directory, f"worker-{index}") for index in range(workers)
        ]

    def start(self) -> None:
        """Start every worker at once."""
        for worker in self.workers:
            worker.launch()
        for worker in self.workers:
            worker.wait_until_ready()

    def end(self) -> None:
        for worker in self.workers:
            worker.kill()

    def read_file(self, name: str, batch: int = 1_000) -> None:
        """Have a connector read a file, so many lines at most at a time.

        What is over such a limit it leaves lying until the file grows again.
        """
        self._configure(
            name,
            {
                "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
                "tasks.max": "1",
                "file": self.files.path(name),
                "topic": LINES,
                "batch.size": str(batch),
            },
        )

    def mirror(self, tasks: int) -> None:
        """Have so many tasks copy the lines from one topic to another."""
        bootstrap = self.target.bootstrap
        self._configure(
            MIRROR,
            {
                "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
                "tasks.max": str(tasks),
                "source.cluster.alias": "here",
                "target.cluster.alias": "there",
                "source.cluster.bootstrap.servers": bootstrap,
                "target.cluster.bootstrap.servers": bootstrap,
                "source.consumer.isolation.level": "read_committed",
                "consumer.isolation.level": "read_committed",
                "topics": LINES,
                "replication.factor": "1",
                "sync.topic.acls.enabled": "false",
                "sync.topic.configs.enabled": "false",
                "refresh.topics.enabled": "false",
                "emit.offset-syncs.enabled": "false",
                "consumer.poll.timeout.ms": "100",
                "key.converter": _BYTES,
                "value.converter": _BYTES,
            },
        )

    def _configure(self, name: str, config: dict[str, str]) -> None:
        self.awake.insist("PUT", f"/connectors/{name}/config", {**config, **_ONCE})

    @property
    def awake(self) -> Worker:
        """Return a worker that answers."""
        return next(worker for worker in self.workers if worker.is_awake)

    def tasks(self, connector: str) -> list[dict[str, str]]:
        """Return the state of each task of a connector, and its worker."""
        told = self.awake.insist("GET", f"/connectors/{connector}/status")
        return cast("list[dict[str, str]]", told["tasks"])

    def wait_for_tasks(self, connector: str, count: int) -> None:
        """Wait until so many tasks of a connector run."""
        wait_until(
            lambda: [task["state"] for task in self.tasks(connector)] == ["RUNNING"] * count,
            f"{count} tasks of {connector}",
            PATIENCE_S,
        )

    def wait_for_copies(self, reader: CommittedReader) -> None:
        """Wait until every line written so far was copied; failed tasks are started again."""
        wanted = self.files.lines

        def is_all_there() -> bool:
            reader.read()
            if reader.counts[COPY].keys() >= wanted:
                return True
            for connector in CONNECTORS:
                if any(task["state"] == "FAILED" for task in self.tasks(connector)):
                    again = f"/connectors/{connector}/restart?includeTasks=true&onlyFailed=true"
                    self.awake.insist("POST", again)
                    self.repairs += 1
            return False

        wait_until(is_all_there, f"copies of {len(wanted)} lines", PATIENCE_S)

    def wait_until_fenced(self, tasks: int) -> None:
        """Wait until so many tasks of the mirror were fenced for others to take their places."""
        wait_until(
            lambda: any(worker.has_said(_FENCED % tasks) for worker in self.workers),
            f"{tasks} tasks to be fenced",
            PATIENCE_S,
        )

    def remove(self, *connectors: str) -> None:
        """Delete connectors, which ends their tasks in good order."""
        for connector in connectors:
            self.awake.insist("DELETE", f"/connectors/{connector}")
            wait_until(
                lambda name=connector: (  # type: ignore[misc]  # mypy: cannot infer a bound lambda
                    name not in self.awake.insist("GET", "/connectors")
                ),
                f"{connector} to be gone",
                PATIENCE_S,
            )

    def reader(self) -> CommittedReader:
        topics = {LINES: PARTITIONS, COPY: PARTITIONS}
        return CommittedReader(self.target.bootstrap, topics, PATIENCE_S)
