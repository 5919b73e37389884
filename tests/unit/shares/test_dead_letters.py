"""Dead letters: the copies of records, and the conditions for a topic."""

from __future__ import annotations

import pytest

from kafkalite.shares.dead_letters import (
    Cause,
    DeadLetters,
    OriginalRecord,
    build_dead_letter_batch,
    topic_problem,
)
from kafkalite.shares.state import ShareKey
from kafkalite.storage.batch import BatchView

LETTERS = DeadLetters(ShareKey("g", bytes(16), 3), "orders", 7, 9, 2, Cause.REJECTED)
ORIGINALS = {8: OriginalRecord(b"k", b"v")}


def test_the_copies_name_the_original_records_and_the_cause() -> None:
    data, end = build_dead_letter_batch(LETTERS, 7, ORIGINALS, max_bytes=10_000, now_ms=5)
    batch = BatchView(data)
    assert batch.has_valid_crc()
    records = batch.records()
    assert end == 10
    assert [(each.offset, each.timestamp, each.key, each.value) for each in records] == [
        (0, 5, None, None), (1, 5, b"k", b"v"), (2, 5, None, None)
    ]  # fmt: skip
    assert records[1].headers == (
        ("__dlq.errors.topic", b"orders"),
        ("__dlq.errors.partition", b"3"),
        ("__dlq.errors.offset", b"8"),
        ("__dlq.errors.group", b"g"),
        ("__dlq.errors.delivery.count", b"2"),
        ("__dlq.errors.message", b"Offset rejected by client."),
    )


def test_a_batch_ends_at_the_limit_but_has_one_record() -> None:
    whole, _ = build_dead_letter_batch(LETTERS, 7, {}, max_bytes=10_000, now_ms=5)
    part, end = build_dead_letter_batch(LETTERS, 7, {}, max_bytes=len(whole) - 1, now_ms=5)
    assert (BatchView(part).record_count, end) == (2, 9)
    tiny, end = build_dead_letter_batch(LETTERS, 9, {}, max_bytes=1, now_ms=5)
    assert (BatchView(tiny).record_count, end) == (1, 10)


@pytest.mark.parametrize(
    ("name", "exists", "accepts", "created", "problem"),
    [
        ("", False, False, True, "no dead-letter topic"),
        ("dlq.a", True, False, True, "group.enable=false"),
        ("dlq.a", False, False, False, "does not exist"),
        ("other", True, True, True, "does not begin with dlq."),
        ("dlq.a", True, True, False, None),
        ("dlq.a", False, False, True, None),
    ],
)
def test_topics_have_conditions(
    name: str, *, exists: bool, accepts: bool, created: bool, problem: str | None
) -> None:
    found = topic_problem(
        name, exists=exists, accepts_letters=accepts, is_created=created, prefix="dlq."
    )
    assert (found is None) if problem is None else problem in (found or "")
