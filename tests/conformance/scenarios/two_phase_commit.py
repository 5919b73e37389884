"""Scenarios of InitProducerId v6 (KIP-939): two-phase commit and prepared transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol._generated.messages.init_producer_id import InitProducerIdRequest
from tests.conformance.setup import create_topic
from tests.conformance.transactional_producer import (
    NO_PRODUCER,
    Producer,
    Transactor,
    describe,
    init_producer_id,
    wait_for_transaction_coordinator,
)

if TYPE_CHECKING:
    from tests.conformance.scenario_cluster import ScenarioCluster

_VERSION = 6
_TIMEOUTS_MS = (60_000, 0, -1, 900_001, 2_147_483_647)


def request(
    transactional_id: str | None,
    expected: Producer = NO_PRODUCER,
    *,
    timeout_ms: int = 60_000,
    enable: bool = False,
    keep: bool = False,
) -> InitProducerIdRequest:
    """Make an InitProducerId request with the fields that version 6 adds."""
    asked = init_producer_id(transactional_id, expected, timeout_ms=timeout_ms)
    asked.enable2_pc, asked.keep_prepared_txn = enable, keep
    return asked


def unstable_versions_are_advertised(cluster: ScenarioCluster) -> None:
    asked = ApiVersionsRequest(client_software_name="conformance-test", client_software_version="1")
    answer = cluster.connection("main").call(asked, 4)
    (row,) = (row for row in answer.api_keys if row.api_key == InitProducerIdRequest.API_KEY)
    cluster.record("InitProducerId", [row.min_version, row.max_version])


def producers_are_initialised_in_version_6(cluster: ScenarioCluster) -> None:
    wait_for_transaction_coordinator(cluster, cluster.name)
    for _ in range(2):
        producer = cluster.ask(request(cluster.name), _VERSION)
    known = Producer(producer.producer_id, producer.producer_epoch)
    cluster.ask(request(cluster.name, known), _VERSION)
    cluster.ask(request(cluster.name, known._replace(producer_epoch=-1)), _VERSION)
    cluster.ask(request(cluster.name, Producer(known.producer_id + 1, 0)), _VERSION)
    cluster.ask(describe(cluster.name), 0)


def two_phase_commit_is_requested(cluster: ScenarioCluster) -> None:
    for index, (enable, keep) in enumerate([(True, False), (False, True), (True, True)]):
        for timeout_ms in _TIMEOUTS_MS:
            name = f"{cluster.name}-{index}-{timeout_ms}"
            wait_for_transaction_coordinator(cluster, name)
            asked = request(name, timeout_ms=timeout_ms, enable=enable, keep=keep)
            cluster.ask(asked, _VERSION)
            cluster.ask(describe(name), 0)
        for unusual in ("", None):
            cluster.ask(request(unusual, timeout_ms=-1, enable=enable, keep=keep), _VERSION)
        # A producer id without an epoch is an error in every request.
        half = Producer(4, -1)
        cluster.ask(request(cluster.name, half, enable=enable, keep=keep), _VERSION)


def two_phase_commit_is_enabled_and_disabled_again(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    wait_for_transaction_coordinator(cluster, cluster.name)
    for enable in (True, False, True):
        answer = cluster.ask(request(cluster.name, enable=enable), _VERSION)
        if answer.error_code:
            continue
        cluster.ask(describe(cluster.name), 0)
        producer = Producer(answer.producer_id, answer.producer_epoch)
        transactor = Transactor(cluster, cluster.name, producer=producer)
        transactor.add()
        cluster.ask(request(cluster.name, keep=True), _VERSION)
        transactor.commit()


SCENARIOS = (
    unstable_versions_are_advertised,
    producers_are_initialised_in_version_6,
    two_phase_commit_is_requested,
    two_phase_commit_is_enabled_and_disabled_again,
)
