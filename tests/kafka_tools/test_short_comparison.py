"""A short comparison of the tools of the image with what Kafka's tools printed."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pytest

from kafkalite.testing import Broker
from tests.kafka_tools.own_side import OwnSide
from tests.kafka_tools.recordings import numbered_cases, recorded_results
from tests.kafka_tools.sides import placeholders

if TYPE_CHECKING:
    from collections.abc import Iterator

_TITLES: Final = (
    "kafka-topics --describe --topic no-such-topic",
    "kafka-topics --describe --topic no-such-topic --if-exists",
    "kafka-topics --version",
    "kafka-configs --describe --broker 7",
    "kafka-get-offsets --topic no-such-topic",
    "kafka-leader-election --election-type preferred --all-topic-partitions",
    "kafka-reassign-partitions --list",
    "kafka-consumer-groups --list --state Stable --type classic",
    "kafka-consumer-groups --describe --group no-such-group",
    "kafka-consumer-groups --validate-regex read.*",
    "kafka-share-groups --describe --group no-such-group",
    "kafka-share-groups --delete --group no-such-group",
    "kafka-streams-groups --describe --group no-such-group",
    "kafka-streams-groups --delete --group no-such-group",
    "kafka-transactions describe --transactional-id no-such-id",
    "kafka-cluster cluster-id",
    "kafka-features disable --feature share.version --dry-run",
)
"""Command lines that need no others before: `test_own_tools.py` compares all command lines."""
_TOPIC_TITLES: Final = (
    "kafka-topics --create --topic made --partitions 3 --config retention.ms=1000",
    "kafka-topics --create --topic made",
    "kafka-topics --create --topic made --if-not-exists",
    "kafka-topics --create --topic placed --replica-assignment 1,1",
    "kafka-topics --create --topic ... --if-not-exists",
    "kafka-topics --create --topic with.dots",
    "kafka-topics --create --topic with_dots",
    "kafka-topics --list",
)
"""Command lines that depend on those before."""

_CASES: Final = dict(numbered_cases())


# No port may be a part of other numbers in the outputs.
_CONTROLLER: Final = "127.0.0.1:65535"


@contextmanager
def own_side() -> Iterator[OwnSide]:
    """Run the tools at a broker without topics."""
    with Broker() as broker:
        yield OwnSide(placeholders(broker.bootstrap_servers, _CONTROLLER))


@pytest.fixture(scope="module")
def side() -> Iterator[OwnSide]:
    with own_side() as opened:
        yield opened


@pytest.mark.parametrize("title", _TITLES)
def test_a_tool_prints_what_that_of_kafka_prints(side: OwnSide, title: str) -> None:
    assert side.perform(_CASES[title]) == recorded_results()[title]


def test_topics_are_created_and_listed_as_by_kafka() -> None:
    with own_side() as side:
        for title in _TOPIC_TITLES:
            assert side.perform(_CASES[title]) == recorded_results()[title], title
