"""Transactional ids: producers, states and coordinators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from tests.conformance.setup import create_topic
from tests.conformance.transactional_producer import (
    COMMIT,
    NEW,
    OLD,
    Producer,
    Protocol,
    Transactor,
    describe,
    in_both_protocols,
    init_producer_id,
    list_transactions,
    start_producer,
    wait_for_transaction_coordinator,
    wait_until_complete,
)

if TYPE_CHECKING:
    from kafkalite.protocol._generated.messages.list_transactions import ListTransactionsResponse
    from tests.conformance.scenario_cluster import ScenarioCluster

_INIT_VERSIONS = range(6)
_KNOWS_EPOCHS = (3, 4, 5)
_LARGEST_TIMEOUT_MS = 900_000
_TRANSACTION_KEYS = (22, 24, 25, 26, 27, 28, 61, 65, 66)


def apis_of_transactions_are_announced(cluster: ScenarioCluster) -> None:
    request = ApiVersionsRequest(
        client_software_name="conformance-test", client_software_version="1"
    )
    response = cluster.connection("main").call(request, 4)
    for row in response.api_keys:
        if row.api_key in _TRANSACTION_KEYS:
            cluster.record(f"api {row.api_key}", [row.min_version, row.max_version])
    for kind in ("supported_features", "finalized_features"):
        for feature in getattr(response, kind):
            if feature.name == "transaction.version":
                cluster.record(kind, cluster.tree(feature))


def coordinators_of_transactional_ids_are_found(cluster: ScenarioCluster) -> None:
    wait_for_transaction_coordinator(cluster, cluster.name)
    for version in range(1, 7):
        keys = [cluster.name, f"{cluster.name}-other", ""]
        cluster.ask(
            FindCoordinatorRequest(key=cluster.name, key_type=1, coordinator_keys=keys), version
        )
    for version in (1, 3):
        cluster.ask(FindCoordinatorRequest(key="", key_type=1), version)
    cluster.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=[]), 4)


def producers_are_initialised_in_every_version(cluster: ScenarioCluster) -> None:
    for version in _INIT_VERSIONS:
        name = f"{cluster.name}-{version}"
        wait_for_transaction_coordinator(cluster, name)
        for _ in range(3):
            cluster.ask(init_producer_id(name), version)
        cluster.ask(describe(name), 0)


def producers_without_a_transactional_id_are_new_each_time(cluster: ScenarioCluster) -> None:
    wait_for_transaction_coordinator(cluster, cluster.name)
    for version in _INIT_VERSIONS:
        for timeout_ms in (60_000, 0, -1, 900_001):
            cluster.ask(init_producer_id(None, timeout_ms=timeout_ms), version)
    for version in _KNOWS_EPOCHS:
        cluster.ask(init_producer_id(None, Producer(77, 3)), version)
        cluster.ask(init_producer_id(None, Producer(77, 32_767)), version)


def an_empty_transactional_id_is_refused(cluster: ScenarioCluster) -> None:
    wait_for_transaction_coordinator(cluster, cluster.name)
    for version in _INIT_VERSIONS:
        cluster.ask(init_producer_id(""), version)
        cluster.ask(init_producer_id("", timeout_ms=0), version)


def producer_id_and_epoch_are_required_together(cluster: ScenarioCluster) -> None:
    wait_for_transaction_coordinator(cluster, cluster.name)
    for version in _KNOWS_EPOCHS:
        for expected in (Producer(5, -1), Producer(-1, 3), Producer(-1, 0), Producer(-2, -2)):
            for name in (cluster.name, None, ""):
                cluster.ask(init_producer_id(name, expected), version)
    cluster.ask(describe(cluster.name), 0)


def transaction_timeouts_have_bounds(cluster: ScenarioCluster) -> None:
    wait_for_transaction_coordinator(cluster, cluster.name)
    for version in (0, 5):
        for timeout_ms in (0, -1, -(1 << 31), _LARGEST_TIMEOUT_MS + 1, (1 << 31) - 1):
            cluster.ask(init_producer_id(cluster.name, timeout_ms=timeout_ms), version)
            cluster.ask(describe(cluster.name), 0)
        for timeout_ms in (1, _LARGEST_TIMEOUT_MS, 30_000):
            cluster.ask(init_producer_id(cluster.name, timeout_ms=timeout_ms), version)
            cluster.ask(describe(cluster.name), 0)
            cluster.ask(init_producer_id(cluster.name, timeout_ms=0), version)


def a_producer_may_resume(cluster: ScenarioCluster) -> None:
    for version in _KNOWS_EPOCHS:
        producer = start_producer(cluster, NEW._replace(init=version), f"{cluster.name}-{version}")
        first = producer.producer
        producer.init(first)
        producer.init(first)
        producer.init(producer.producer)
        for expected in (
            first,
            producer.newer,
            producer.at(7),
            Producer(first.producer_id + 1_000_000, first.producer_epoch),
            Producer(first.producer_id + 1_000_000, 32_766),
            Producer(first.producer_id, 32_767),
        ):
            producer.init(expected)
        last = producer.producer
        producer.init()
        producer.init(last)
        producer.init(producer.producer)
        cluster.ask(describe(producer.transactional_id), 0)


def an_unknown_producer_may_resume(cluster: ScenarioCluster) -> None:
    """Get a new producer id for an expired transactional id, with any claimed producer."""
    for version in _KNOWS_EPOCHS:
        name = f"{cluster.name}-{version}"
        wait_for_transaction_coordinator(cluster, name)
        transactor = Transactor(cluster, name, NEW._replace(init=version))
        transactor.init(Producer(123_456_789, 7))
        transactor.init(Producer(123_456_789, 7))
        transactor.init(transactor.producer)
        cluster.ask(describe(name), 0)


def producers_resume_between_transactions(cluster: ScenarioCluster, protocol: Protocol) -> None:
    create_topic(cluster, cluster.name)
    producer = start_producer(cluster, protocol)
    for is_commit in (True, False):
        producer.begin()
        producer.end(is_commit=is_commit)
        ended = producer.producer
        producer.init(ended)
        producer.init(ended)
        cluster.ask(describe(cluster.name), 0)
        producer.init(producer.older)


def resuming_is_checked_after_an_end(cluster: ScenarioCluster, protocol: Protocol) -> None:
    """Claim the epoch of the last transaction, the epoch after its end, and others."""
    create_topic(cluster, cluster.name)
    for step in (-2, -1, 0, 1, 2):
        producer = start_producer(cluster, protocol, f"{cluster.name}-{step + 2}")
        producer.init()
        producer.begin()
        producer.commit()
        producer.init(producer.at(step))
        producer.init()


def an_open_transaction_is_fenced(cluster: ScenarioCluster, protocol: Protocol) -> None:
    """Initialize again with the returned epoch; the transaction is aborted, its producer fenced."""
    create_topic(cluster, cluster.name)
    producer = start_producer(cluster, protocol)
    producer.begin()
    zombie = producer.producer
    producer.fence()
    for step in (0, 1):
        stale = Producer(zombie.producer_id, zombie.producer_epoch + step)
        for version in range(4):
            producer.with_versions(add=version).add(producer=stale)
        for version in (3, 9, 10, 11, 12):
            producer.with_versions(produce=version).write(producer=stale, sequence=1)
        for version in range(5):
            producer.with_versions(add_offsets=version).add_offsets(cluster.name, stale)
        for version in range(6):
            producer.with_versions(end=version).end(is_commit=COMMIT, producer=stale)
            producer.with_versions(end=version).end(is_commit=False, producer=stale)
        for version in _KNOWS_EPOCHS:
            cluster.ask(init_producer_id(cluster.name, stale), version)
        cluster.ask(describe(cluster.name), 0)


def an_open_transaction_is_resumed(cluster: ScenarioCluster, protocol: Protocol) -> None:
    """End the open transaction first, with any epoch that a client sends."""
    create_topic(cluster, cluster.name)
    for step in (-1, 0, 1):
        producer = start_producer(cluster, protocol, f"{cluster.name}-{step + 1}")
        producer.init()
        producer.begin()
        expected = producer.at(step)
        producer.init(Producer(expected.producer_id + 1_000_000, expected.producer_epoch))
        cluster.ask(describe(producer.transactional_id), 0)
        producer.init(expected)
        wait_until_complete(cluster, producer.transactional_id)
        producer.init(expected)
        producer.init(producer.producer)
        cluster.ask(describe(producer.transactional_id), 0)


def a_new_producer_sets_its_own_timeout(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    producer = start_producer(cluster, NEW, timeout_ms=10_000)
    producer.begin()
    cluster.ask(describe(cluster.name), 0)
    producer.init(timeout_ms=20_000)
    wait_until_complete(cluster, cluster.name)
    producer.init(timeout_ms=30_000)
    cluster.ask(describe(cluster.name), 0)


def transactional_ids_are_described(cluster: ScenarioCluster, protocol: Protocol) -> None:
    topics = [f"{cluster.name}-{letter}" for letter in "ab"]
    for topic in topics:
        create_topic(cluster, topic, partitions=2)
    producer = start_producer(cluster, protocol)
    start_producer(cluster, protocol, f"{cluster.name}-idle")
    names = (cluster.name, f"{cluster.name}-idle", f"{cluster.name}-unknown", "")
    cluster.ask(describe(*names), 0)
    for topic in topics:
        producer.begin(1, 0, topic=topic)
        cluster.ask(describe(*names), 0)
    cluster.ask(describe(cluster.name, cluster.name), 0)
    producer.commit()
    cluster.ask(describe(*names), 0)
    producer.begin(topic=topics[0])
    producer.abort()
    cluster.ask(describe(), 0)


def _note_own(cluster: ScenarioCluster, response: ListTransactionsResponse, asked: str) -> None:
    """Note the rows of the scenario's own ids: other scenarios use the same broker."""
    rows = [
        row for row in response.transaction_states if row.transactional_id.startswith(cluster.name)
    ]
    response.transaction_states = rows
    cluster.record(asked, cluster.tree(response))


def transactions_are_listed(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    names = [f"{cluster.name}-{state}" for state in ("empty", "open", "committed", "aborted")]
    producers = [start_producer(cluster, protocol, name) for name in names for protocol in (OLD,)]
    for producer in producers[1:]:
        producer.begin()
    producers[2].commit()
    producers[3].abort()
    ids = [each.producer.producer_id for each in producers]
    states = ("Ongoing", "Empty", "CompleteCommit", "CompleteAbort", "PrepareCommit", "Dead")
    for version in range(3):
        for filters in (
            list_transactions(),
            *(list_transactions(state) for state in states),
            list_transactions("Ongoing", "Empty"),
            list_transactions("ongoing"),
            list_transactions("NoSuchState"),
            list_transactions("NoSuchState", "Other", "Ongoing"),
            list_transactions(""),
            list_transactions("PrepareEpochFence", "PrepareAbort", "CompleteAbort"),
            list_transactions(producer_ids=ids[:2]),
            list_transactions("Ongoing", producer_ids=ids),
            list_transactions(producer_ids=[-1, 1 << 40]),
        ):
            asked = f"v{version} {filters.state_filters} {len(filters.producer_id_filters)}"
            _note_own(cluster, cluster.probe(filters, version), asked)


def durations_and_patterns_select_transactions(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    producer = start_producer(cluster, NEW, f"{cluster.name}-open")
    producer.begin()
    start_producer(cluster, NEW, f"{cluster.name}-idle")
    for duration_ms in (-1, -7, 0, 3_600_000):
        for version in (1, 2):
            _note_own(
                cluster,
                cluster.probe(list_transactions(duration_ms=duration_ms), version),
                f"v{version} longer than {duration_ms}",
            )
    ours = cluster.name
    for pattern in (
        None, "", ".*", f"{ours}-.*", f"{ours}-open", ours, "open", f"{ours}-(open|idle)",
        f"(?i){ours.upper()}-IDLE", "[", "(?<name>x)", "(?=x)", "a{2000}", f"{ours}-[a-m]+",
    ):  # fmt: skip
        _note_own(cluster, cluster.probe(list_transactions(pattern=pattern), 2), f"like {pattern}")
    narrow = list_transactions("Ongoing", "Nothing", pattern=f"{ours}-.*", duration_ms=0)
    _note_own(cluster, cluster.probe(narrow, 2), "narrow")


SCENARIOS = (
    apis_of_transactions_are_announced,
    coordinators_of_transactional_ids_are_found,
    producers_are_initialised_in_every_version,
    producers_without_a_transactional_id_are_new_each_time,
    an_empty_transactional_id_is_refused,
    producer_id_and_epoch_are_required_together,
    transaction_timeouts_have_bounds,
    a_producer_may_resume,
    an_unknown_producer_may_resume,
    *in_both_protocols(producers_resume_between_transactions),
    *in_both_protocols(resuming_is_checked_after_an_end),
    *in_both_protocols(an_open_transaction_is_fenced),
    *in_both_protocols(an_open_transaction_is_resumed),
    a_new_producer_sets_its_own_timeout,
    *in_both_protocols(transactional_ids_are_described),
    transactions_are_listed,
    durations_and_patterns_select_transactions,
)
