"""States of a transactional id, read from the log of its coordinator."""

from __future__ import annotations

from kafkalite.control.console.source import TransactionMoment
from tests.unit.control.console.served_console import NOW_MS, served_console


async def test_each_state_is_found() -> None:
    async with served_console() as console:
        assert await console.source.transaction_moments("pay") == ()
        await console.begin_transaction("pay")
        await console.begin_transaction("pay-2")
        console.clock.advance(100_000)
        found = await console.source.transaction_moments("pay")
    assert found[:2] == (
        TransactionMoment(NOW_MS, "Empty", 0, 0, 0),
        TransactionMoment(NOW_MS, "Ongoing", 0, 0, 1),
    )
    assert [each.state for each in found[2:]] == ["PrepareAbort", "CompleteAbort"]
