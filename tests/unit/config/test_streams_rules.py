"""Rules of streams groups, by release."""

from __future__ import annotations

from kafkalite.config.releases import emulated_release, release_names
from kafkalite.config.streams_rules import StreamsRules, streams_rules_of


def test_kafka_4_4_has_all_rules_and_earlier_releases_none() -> None:
    assert streams_rules_of("4.4") == StreamsRules()
    assert not any(streams_rules_of("4.3"))
    for name in release_names():
        assert streams_rules_of(name) in (streams_rules_of("4.3"), StreamsRules())
        assert emulated_release(name).streams_rules == streams_rules_of(name)
