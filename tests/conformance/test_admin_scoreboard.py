"""Every method and option of admin clients has the same result with kafkalite and a real Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.scoreboard.brokers import brokers
from tests.conformance.scoreboard.cells import compare, rows_of, stored_rows, uncovered
from tests.conformance.scoreboard.clients import CLIENTS
from tests.conformance.scoreboard.differences import DIFFERENCES, EXCLUDED
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conformance.scoreboard.clients import AdminClient

pytestmark = [pytest.mark.oracle, pytest.mark.endurance, pytest.mark.timeout(400)]


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_every_method_and_option_has_the_same_result(client: AdminClient, tmp_path: Path) -> None:
    # The brokers are new: some calls return what all earlier calls left.
    with required(), brokers(tmp_path) as pair:
        real, emulated = pair.run(client.sweep)
    assert not uncovered(real, EXCLUDED[client.name])
    assert rows_of(real) == stored_rows(client.name), "run `python -m tests.conformance.scoreboard`"
    lines = compare(client.name, real, emulated)
    assert not lines, "\n".join(lines)


@pytest.mark.parametrize("client", DIFFERENCES)
def test_every_listed_difference_has_a_cell(client: str) -> None:
    assert DIFFERENCES[client].keys() <= {row.name for row in stored_rows(client)}
