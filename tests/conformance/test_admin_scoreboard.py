"""Every method and option of admin clients has the same result with kafkalite and a real Kafka."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.conformance.scoreboard.brokers import brokers
from tests.conformance.scoreboard.cells import compare, rows_of, stored_rows, uncovered
from tests.conformance.scoreboard.clients import CLIENTS
from tests.conformance.scoreboard.differences import DIFFERENCES, EXCLUDED
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conformance.scoreboard.brokers import Pair
    from tests.conformance.scoreboard.clients import AdminClient

pytestmark = [pytest.mark.oracle, pytest.mark.endurance, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def start_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[int], Pair]]:
    """Return a function that starts the brokers of an attempt: a sweep needs unused names."""
    with ExitStack() as stack:
        pairs: dict[int, Pair] = {}

        def start(attempt: int) -> Pair:
            if attempt not in pairs:
                directory = tmp_path_factory.mktemp("scoreboard")
                with required():
                    pairs[attempt] = stack.enter_context(brokers(directory))
            return pairs[attempt]

        yield start


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_every_method_and_option_has_the_same_result(
    client: AdminClient, start_pair: Callable[[int], Pair], attempt: int
) -> None:
    with required():
        real, emulated = start_pair(attempt).run(client.sweep)
    assert not uncovered(real, EXCLUDED[client.name])
    assert rows_of(real) == stored_rows(client.name), "run `python -m tests.conformance.scoreboard`"
    lines = compare(client.name, real, emulated)
    assert not lines, "\n".join(lines)


@pytest.mark.parametrize("client", DIFFERENCES)
def test_every_listed_difference_has_a_cell(client: str) -> None:
    assert DIFFERENCES[client].keys() <= {row.name for row in stored_rows(client)}
