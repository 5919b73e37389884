"""Status entries in responses to StreamsGroupHeartbeat."""

from __future__ import annotations

from kafkalite.groups.streams.status import StatusCode, format_topic_names


def test_codes_are_those_of_the_wire() -> None:
    assert [code.name for code in StatusCode] == [
        "STALE_TOPOLOGY",
        "MISSING_SOURCE_TOPICS",
        "INCORRECTLY_PARTITIONED_TOPICS",
        "MISSING_INTERNAL_TOPICS",
        "SHUTDOWN_APPLICATION",
        "ASSIGNMENT_DELAYED",
        "MISSING_CLIENT_TAGS",
    ]
    assert [int(code) for code in StatusCode] == list(range(7))


def test_only_the_first_topics_are_named() -> None:
    assert format_topic_names(["a"]) == "a"
    assert format_topic_names(["a", "b", "c"]) == "a, b, c"
    assert format_topic_names(["a", "b", "c", "d", "e"]) == "a, b, c and 2 additional topics"
