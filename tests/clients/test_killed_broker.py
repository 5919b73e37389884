"""A killed broker restarts with all data that it acknowledged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.clients.client_libraries import client_named
from tests.clients.client_scenario import Group, group_resumes_after_a_restart
from tests.clients.process import running_driver
from tests.oracle.fixtures import broker_under_test
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.client, pytest.mark.endurance]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_resumes_after_the_broker_was_killed(tmp_path: Path, protocol: str) -> None:
    with required():
        target = broker_under_test(tmp_path)
        target.start()
    try:
        with running_driver(client_named("confluent-kafka"), target.bootstrap, tmp_path) as driver:
            group = Group(driver, target, "survivors", "survivors-topic", protocol)
            group_resumes_after_a_restart(group, is_killed=True)
    finally:
        target.kill()
