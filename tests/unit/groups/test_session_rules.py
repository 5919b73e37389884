"""The coordinators renew sessions by the requests in `RENEWALS`, and by no others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.groups.session_rules import RENEWALS, RENEWING_CODES, MemberKind
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.testing import Broker
from tests.conformance.scenario_cluster import ScenarioCluster
from tests.conformance.scenarios.session_renewals import CASES, outcome
from tests.oracle.target import COMMON_CONFIG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conformance.scenarios.session_renewals import Case

IMMEDIATE = {"sync_of_a_stable_member", "sync_in_a_rebalance", "join_that_repeats_a_generation"}
"""Responses that are not awaited; they have the error codes of others that renew."""
OF_ONE_PARTITION = {"commit_with_long_metadata"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(config=COMMON_CONFIG, clock="manual") as broker:
        yield broker


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.live.__name__)
def test_session_is_renewed_as_in_the_table(broker: Broker, case: Case) -> None:
    name = case.live.__name__
    cluster = ScenarioCluster(
        int(broker.bootstrap_servers.rpartition(":")[2]), name.replace("_", "-")
    )
    try:
        found = outcome(case, cluster, lambda seconds: broker.clock.advance(seconds=seconds))
    finally:
        cluster.close()
    assert found == (case.code, case.renews)
    codes = [row.codes for row in RENEWALS if (row.kind, row.api) == (case.kind, case.api)]
    code = ErrorCode.NONE if name in OF_ONE_PARTITION else case.code
    assert any(code in each for each in codes) is (case.renews or name in IMMEDIATE)


def test_every_renewal_is_tried() -> None:
    tried = {(case.kind, case.api) for case in CASES if case.renews}
    assert tried == {(row.kind, row.api) for row in RENEWALS}
    assert {case.kind for case in CASES if not case.renews} == set(MemberKind)


def test_codes_by_api_are_those_of_classic_groups() -> None:
    classic = {row.api: row.codes for row in RENEWALS if row.kind is MemberKind.CLASSIC}
    assert {row.api: row.codes for row in RENEWALS} | classic == RENEWING_CODES
