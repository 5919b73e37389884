"""After a true error, clients send and get the same with kafkalite as with a real Kafka.

With KAFKALITE_RECORD=1 the test of Kafka records the histories of all clients. Other runs compare
one client with Kafka, and kafkalite with all records.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from tests.clients.error_histories import CLIENTS, FILE, emulated, histories, real
from tests.conformance.recordings import RENEW

if TYPE_CHECKING:
    from pathlib import Path

    from tests.clients.error_histories import History

pytestmark = [
    pytest.mark.client,
    pytest.mark.endurance,
    pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated"),  # by kafka-python
]

_IS_RENEWED = bool(os.environ.get(RENEW))


def recorded(clients: tuple[str, ...]) -> dict[str, dict[str, History]]:
    """Return the recorded histories of clients by error."""
    rows: dict[str, dict[str, History]] = json.loads(FILE.read_text())
    return {
        error: {name: history for name, history in by_client.items() if name in clients}
        for error, by_client in rows.items()
    }


@pytest.mark.oracle
def test_kafka_has_the_recorded_histories(tmp_path: Path) -> None:
    clients = CLIENTS if _IS_RENEWED else CLIENTS[:1]
    found = histories(real, clients, tmp_path)
    if _IS_RENEWED:
        FILE.write_text(json.dumps(found, indent=1) + "\n")
    assert found == recorded(clients)


def test_kafkalite_has_the_histories_of_kafka(tmp_path: Path) -> None:
    assert histories(emulated, CLIENTS, tmp_path) == recorded(CLIENTS)
