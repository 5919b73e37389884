"""The Java consumer draws its member id itself (KIP-1082): one for its life, and no ghosts."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from kafkalite.groups.consumer.settings import MEMBER_ID_KEY
from kafkalite.protocol.uuids import is_reserved, uuid_from_text
from tests.clients.roster import java_classes
from tests.oracle.jars import java_command
from tests.oracle.requirements import required
from tests.oracle.served_kafkalite import ServedKafkalite
from tests.oracle.target import COMMON_CONFIG

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.client

_HASTY = 8
_TIMEOUT_S = 90.0


def test_java_consumers_keep_their_ids_and_leave_no_ghosts(tmp_path: Path) -> None:
    """Where ids must be UUIDs, and two incarnations of one id are not let in."""
    with required():
        command = java_command("HastyConsumers", classes=java_classes(), log_level="off")
    broker = ServedKafkalite(tmp_path, {**COMMON_CONFIG, MEMBER_ID_KEY: "uuid"})
    broker.start()
    try:
        done = subprocess.run(
            [*command, broker.bootstrap, "t", "hasty", str(_HASTY)],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    finally:
        broker.kill()
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    first, again = found["ids"]
    assert first == again
    assert not is_reserved(uuid_from_text(first))
    assert found["left"] == []
