"""Quotas as in each release of Kafka: their administration, and the throttling of clients."""

from __future__ import annotations

import time
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import pytest

from kafkalite.protocol._generated.messages.alter_client_quotas import AlterClientQuotasRequest
from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
)
from kafkalite.protocol._generated.messages.fetch import FetchRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from tests.conformance.batches import batch
from tests.conformance.compared_releases import RELEASES
from tests.conformance.raw import RawClient
from tests.conformance.scenario_cluster import ScenarioCluster
from tests.conformance.scenario_runs import compared
from tests.conformance.scenarios import client_quotas
from tests.conformance.scenarios.fetching import fetch_from
from tests.conformance.setup import create_topic, fill, produce
from tests.oracle.fixtures import broker_under_test, running_targets
from tests.oracle.real_kafka import RealKafka

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conformance.compared_releases import Release
    from tests.conformance.scenario_runs import Scenario
    from tests.oracle.target import Target

pytestmark = pytest.mark.oracle

_numbers = count()
_BYTES_PER_SECOND: Final = 2_000
_VALUE_BYTES: Final = 6_000
_CREATION_S: Final = 0.5
"""A time in which Kafka creates a topic that a client names."""
_SAMPLE_MS: Final = 1_000
"""A sample of a rate. Its age at the request changes the throttle time by as much as that."""


@pytest.fixture(scope="module", params=RELEASES)
def release(request: pytest.FixtureRequest) -> Release:
    """Return the release that is compared."""
    return RELEASES[request.param]


@pytest.fixture(scope="module")
def kafka(
    request: pytest.FixtureRequest, release: Release, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Target]:
    """Return a Kafka of each release; that of the default one is the Kafka of all scenarios."""
    if release.version is None:
        yield request.getfixturevalue("real_kafka")
        return
    kafka = RealKafka(tmp_path_factory.mktemp("kafka"), release=release.version)
    with running_targets(kafka):
        yield kafka


@pytest.fixture(scope="module")
def emulated(
    request: pytest.FixtureRequest, release: Release, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Target]:
    """Return the broker under test as each release."""
    if release.name is None:
        yield request.getfixturevalue("emulator")
        return
    target = broker_under_test(tmp_path_factory.mktemp("emulator"), as_version=release.name)
    with running_targets(target):
        yield target


@pytest.mark.parametrize("release", ["4.3"], indirect=True)
@pytest.mark.parametrize(
    "scenario", client_quotas.SCENARIOS, ids=lambda scenario: scenario.__name__
)
def test_quotas_are_administered_as_in_an_earlier_kafka(
    scenario: Scenario, release: Release, kafka: Target, emulated: Target
) -> None:
    """The default release is compared with the other scenarios, in `test_scenarios`."""
    assert release.name is not None
    assert compared(scenario, kafka, emulated, release.name) == ""


class ThrottledClient:
    """A client with a quota of its own, and a topic of one partition."""

    def __init__(self, target: Target, key: str, value: float) -> None:
        self.name = f"throttled-{next(_numbers)}"
        self.cluster = ScenarioCluster(target.port, self.name)
        self._set_quota(key, value)
        self.topic_id = create_topic(self.cluster, self.name)
        self._raw = self._connect()

    def close(self) -> None:
        """Close all connections."""
        self._raw.close()
        self.cluster.close()

    def call(self, request: Any, version: int) -> Any:  # noqa: ANN401 - any messages
        """Return the response to a request on the connection of the client."""
        return self._raw.call(request, version)

    def reconnect(self) -> None:
        """Use a new connection, which is not muted."""
        self._raw.close()
        self._raw = self._connect()

    def _connect(self) -> RawClient:
        return RawClient(self.cluster.port, client_id=self.name.encode())

    def _set_quota(self, key: str, value: float) -> None:
        entity = AlterClientQuotasRequest.EntityData(entity_type="client-id", entity_name=self.name)
        entry = AlterClientQuotasRequest.EntryData(
            entity=[entity], ops=[AlterClientQuotasRequest.OpData(key=key, value=value)]
        )
        self.cluster.probe(AlterClientQuotasRequest(entries=[entry]), 1)
        component = DescribeClientQuotasRequest.ComponentData(
            entity_type="client-id", match_type=0, match=self.name
        )
        self.cluster.call_until(
            DescribeClientQuotasRequest(components=[component]),
            1,
            lambda response: bool(response.entries),
            is_recorded=False,
        )


def results(
    target: Target, key: str, value: float, run: Callable[[ThrottledClient], list[int]]
) -> list[int]:
    """Return the result of a client with a quota."""
    client = ThrottledClient(target, key, value)
    try:
        return run(client)
    finally:
        client.close()


def producing(client: ThrottledClient) -> list[int]:
    """Produce above the quota; return the throttle times."""
    throttle_times = []
    for _ in range(6):
        request = produce(client.name, batch(b"x" * _VALUE_BYTES))
        throttle_times.append(client.call(request, 9).throttle_time_ms)
        client.reconnect()
    return throttle_times


def _fetch(client: ThrottledClient, offset: int) -> Any:  # noqa: ANN401 - the response
    # Kafka would also return the beginning of the next batch if there were space for it.
    partition = FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1)
    return client.call(fetch_from(client.name, partition), 12)


def fetching(client: ThrottledClient) -> list[int]:
    """Fetch above the quota; return the throttle times."""
    for _ in range(6):
        fill(client.cluster, client.name, b"x" * _VALUE_BYTES)
    throttle_times = []
    for offset in range(6):
        throttle_times.append(_fetch(client, offset).throttle_time_ms)
        client.reconnect()
    return throttle_times


@pytest.mark.parametrize(
    ("key", "run"), [("producer_byte_rate", producing), ("consumer_byte_rate", fetching)]
)
def test_throttle_times_are_those_of_kafka(
    kafka: Target, emulated: Target, key: str, run: Callable[[ThrottledClient], list[int]]
) -> None:
    real, ours = (results(target, key, _BYTES_PER_SECOND, run) for target in (kafka, emulated))
    assert real[0] == ours[0] == 0
    assert real[-1] > 0
    assert ours == pytest.approx(real, abs=_SAMPLE_MS)


def muted_ms(client: ThrottledClient) -> list[int]:
    """Produce above the quota; return the throttle time and the time until the next answer."""
    request = produce(client.name, batch(b"x" * _VALUE_BYTES))
    throttle_time_ms = client.call(request, 9).throttle_time_ms
    begun_s = time.monotonic()
    _fetch(client, 0)
    return [throttle_time_ms, int((time.monotonic() - begun_s) * 1000)]


def test_a_throttled_connection_is_muted_as_in_kafka(kafka: Target, emulated: Target) -> None:
    for target in (kafka, emulated):
        throttle_time_ms, waited_ms = results(target, "producer_byte_rate", 500, muted_ms)
        assert 0 < throttle_time_ms <= waited_ms + 1


def mutations(client: ThrottledClient) -> list[int]:
    """Create topics above the quota; return the error codes, and whether clients have to wait."""
    found = []
    for number in range(4):
        topic = CreateTopicsRequest.CreatableTopic(
            name=f"{client.name}-{number}", num_partitions=7, replication_factor=1
        )
        response = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
        found += [response.topics[0].error_code, response.throttle_time_ms > 0]
        client.reconnect()
    return found


def test_mutations_above_the_quota_are_refused_as_in_kafka(kafka: Target, emulated: Target) -> None:
    real, ours = (
        results(target, "controller_mutation_rate", 1, mutations) for target in (kafka, emulated)
    )
    assert ours == real
    assert any(real)


def automatic_topics(client: ThrottledClient) -> list[int]:
    """Name unknown topics above the quota; return which were created, and throttle times."""
    found = []
    for number in range(3):
        row = MetadataRequest.MetadataRequestTopic(name=f"{client.name}-named-{number}")
        named = MetadataRequest(topics=[row], allow_auto_topic_creation=True)
        found.append(client.call(named, 12).throttle_time_ms)
        time.sleep(_CREATION_S)
        described = client.call(MetadataRequest(topics=[row], allow_auto_topic_creation=False), 12)
        found.append(not described.topics[0].error_code)
    return found


def test_automatic_topics_above_the_quota_are_not_created(kafka: Target, emulated: Target) -> None:
    real, ours = (
        results(target, "controller_mutation_rate", 0.1, automatic_topics)
        for target in (kafka, emulated)
    )
    assert ours == real == [0, True, 0, False, 0, False]
