"""Declarations of states: each names the APIs whose requests it reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.lab.spark.audits import STATES
from kafkalite.lab.spark.audits.contract import ALL_APIS, AuditOptions
from kafkalite.lab.spark.dataframes import local_engine
from kafkalite.lab.spark.follow.batch import OWN_STATES
from kafkalite.lab.spark.requests import Requests, api_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from kafkalite.lab.spark.audits.contract import State
    from kafkalite.lab.spark.stages.projection import Projection

pytestmark = pytest.mark.spark


class ReadRequests(Requests):
    """Requests of a capture that has all APIs and no rows, and the APIs that were read."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(spark, {}, derive=lambda _, name: STATES[name].table.empty(spark))
        self.read_apis: set[int] = set()

    def of(self, api: str | int) -> DataFrame:
        self.read_apis.add(api_key(api))
        return super().of(api)

    def project(self, projection: Projection) -> DataFrame:
        self.read_apis |= ALL_APIS if projection.is_of_all_apis else {projection.api_key}
        return super().project(projection)

    def envelopes(self) -> DataFrame:
        self.read_apis |= ALL_APIS
        return super().envelopes()

    def __contains__(self, api: str) -> bool:
        return True


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    with local_engine() as session:
        yield session


@pytest.mark.parametrize(
    "state", [*STATES.values(), *OWN_STATES], ids=lambda state: str(state.table.name)
)
def test_a_state_declares_the_apis_that_it_reads(state: State, session: SparkSession) -> None:
    requests = ReadRequests(session)
    state.compute(requests, AuditOptions())
    assert state.apis == requests.read_apis
