"""The recorded table of ghosts: what a late request does to each client at each release."""

from __future__ import annotations

import json
import re
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

RELEASES: Final = ("3.9", "4.4")
"""The releases of Kafka that are compared, earliest first."""

CLIENTS: Final = (
    "librdkafka", "aiokafka", "kafka-python", "Java 4.4", "Java 3.9", "kafkajs", "franz-go"
)  # fmt: skip
"""The clients; the Java client in two releases."""

_DIRECTORY: Final = Path(__file__).parent
FILE: Final = _DIRECTORY / "ghosts.json"
_FROM_PIP: Final = {
    "librdkafka": "confluent-kafka", "aiokafka": "aiokafka", "kafka-python": "kafka-python"
}  # fmt: skip
"""Client → package."""


class Ghost(NamedTuple):
    """A late request, and how its client gives it up or by which protocol it commits."""

    example: str
    """The file in `examples/known_bugs` that shows it."""
    variant: str


LOST_CONNECTION: Final = Ghost("test_late_end_of_transaction.py", "after a lost connection")
TIMEOUT: Final = Ghost("test_late_end_of_transaction.py", "after a timeout")
CLASSIC: Final = Ghost("test_late_commit.py", "classic protocol")
CONSUMER: Final = Ghost("test_late_commit.py", "consumer protocol")
GHOSTS: Final = (LOST_CONNECTION, TIMEOUT, CLASSIC, CONSUMER)

Outcomes: TypeAlias = dict[Ghost, str]
"""Ghost → outcome, of one client with one release."""

ByRelease: TypeAlias = "dict[str, dict[str, str]]"
"""Release of Kafka → client → outcome."""


def recorded(client: str, release: str) -> Outcomes:
    """Return the recorded outcomes of a client at a release of Kafka."""
    by_ghost = {ghost: by_release(ghost)[release] for ghost in GHOSTS}
    return {ghost: outcomes[client] for ghost, outcomes in by_ghost.items() if client in outcomes}


def by_release(ghost: Ghost) -> ByRelease:
    """Return the recorded outcomes of a ghost."""
    return _read().outcomes[ghost.example][ghost.variant]


def record(client: str, release: str, outcomes: Mapping[Ghost, str]) -> None:
    """Write the outcomes of a client at a release of Kafka, and the version of the client."""
    found, versions = _read()
    rows: dict[str, dict[str, ByRelease]] = {}
    for ghost in GHOSTS:
        earlier = found.get(ghost.example, {}).get(ghost.variant, {})
        given = {each: dict(earlier.get(each, {})) for each in RELEASES}
        given[release].pop(client, None)
        if ghost in outcomes:
            given[release][client] = outcomes[ghost]
        rows.setdefault(ghost.example, {})[ghost.variant] = {
            each: {name: given[each][name] for name in CLIENTS if name in given[each]}
            for each in RELEASES
        }
    if known := _known_versions().get(client):
        versions[client] = known
    versions = {name: versions[name] for name in CLIENTS if name in versions}
    FILE.write_text(json.dumps({"versions": versions, "outcomes": rows}, indent=2) + "\n")


def versions() -> dict[str, str]:
    """Return the versions of the clients whose names do not have them."""
    return _read().versions


def _known_versions() -> dict[str, str]:
    node = json.loads((_DIRECTORY / "js" / "package.json").read_text())
    (franz_go,) = re.findall(
        r"^require github.com/twmb/franz-go v([\d.]+)$",
        (_DIRECTORY / "go" / "go.mod").read_text(),
        re.MULTILINE,
    )
    return {
        **{client: version(package) for client, package in _FROM_PIP.items()},
        "kafkajs": node["dependencies"]["kafkajs"],
        "franz-go": franz_go,
    }


class _Recorded(NamedTuple):
    outcomes: dict[str, dict[str, ByRelease]]
    """Example → variant → outcomes."""
    versions: dict[str, str]


def _read() -> _Recorded:
    if not FILE.exists():
        return _Recorded({}, {})
    return _Recorded(**json.loads(FILE.read_text()))
