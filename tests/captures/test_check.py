"""Checks of the captures of real clients at a real Kafka: none of them lost or doubled a record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.capture.reading.captures import ignore
from kafkalite.lab.checker import delivery_rules
from kafkalite.lab.checker.captured_history import captured_history
from kafkalite.lab.checker.check import check
from kafkalite.lab.checker.findings import Severity
from tests.captures.record import CORPUS

if TYPE_CHECKING:
    from pathlib import Path

CAPTURES = sorted(CORPUS.glob("*.pcapng.gz"))
assert CAPTURES, "there is a corpus"


@pytest.mark.parametrize("path", CAPTURES, ids=[each.name for each in CAPTURES])
def test_correct_clients_have_no_violation(path: Path) -> None:
    result = check(captured_history([path], ignore))
    assert result.violations == ()
    warnings = {
        (each.rule, each.cause) for each in result.findings if each.severity is Severity.WARNING
    }
    # The workers of the transactional sessions abort a transaction, and observers read everything.
    assert warnings <= {(delivery_rules.ABORTED_READ, delivery_rules.READ_UNCOMMITTED)}
    assert result.delivered or "admin" in path.name or "share" in path.name
