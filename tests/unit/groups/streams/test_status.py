"""What members are told besides their tasks."""

from __future__ import annotations

from kafkalite.groups.streams.status import StatusCode, name_some


def test_codes_are_those_of_the_wire() -> None:
    assert [code.name for code in StatusCode] == [
        "STALE_TOPOLOGY",
        "MISSING_SOURCE_TOPICS",
        "INCORRECTLY_PARTITIONED_TOPICS",
        "MISSING_INTERNAL_TOPICS",
        "SHUTDOWN_APPLICATION",
        "ASSIGNMENT_DELAYED",
    ]
    assert [int(code) for code in StatusCode] == list(range(6))


def test_of_many_topics_a_few_are_named() -> None:
    assert name_some(["a"]) == "a"
    assert name_some(["a", "b", "c"]) == "a, b, c"
    assert name_some(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"
