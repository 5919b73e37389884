"""Bisection reads a log in which each record matches."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from kafkalite.control.command_table import running_cluster
from kafkalite.control.time_travel.bisection import Bisection
from kafkalite.control.time_travel.logs import RunningLogs
from kafkalite.server.broker import Broker
from kafkalite.server.settings import Settings
from tests.perf.groups_records import append, batch_of, commit
from tests.unit.control.group_members import CONFIG, TOPIC, Members
from tests.unit.control.ports import ANY_PORT

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.endurance

RECORDS = 100_000
# Twice to three times of what a record takes on an idle machine, in microseconds.
MOST_US = {1: 2.5, 100: 2.0}


def batches(per_batch: int) -> Iterator[bytes]:
    """Yield commits of one partition, each with another offset."""
    for start in range(0, RECORDS, per_batch):
        yield batch_of([commit("shop", TOPIC, 0, each) for each in range(start, start + per_batch)])


@pytest.mark.parametrize("per_batch", [1, 100])
async def test_a_log_in_which_each_record_matches(per_batch: int) -> None:
    broker = Broker(Settings(listen=ANY_PORT, topics={TOPIC: 1}, config=CONFIG, is_in_memory=True))
    await broker.start()
    Members(broker)
    cluster = running_cluster(broker)
    log = cluster.partitions.logs()["__consumer_offsets", 0]
    assert append(log, batches(per_batch)) == RECORDS
    bisection = Bisection(RunningLogs(cluster), f"committed(shop, {TOPIC}, 0) == {RECORDS - 1}")
    started = time.process_time()
    for _ in bisection.steps():
        pass
    used_us = (time.process_time() - started) * 1e6 / RECORDS
    assert bisection.result().offset == RECORDS - 1
    assert used_us < MOST_US[per_batch]
    await broker.stop(grace_s=0)
