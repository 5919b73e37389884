"""A broker that was killed comes back with everything it had acknowledged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.clients.process import visiting
from tests.clients.roster import client_named
from tests.clients.story import Group, group_resumes_after_a_restart
from tests.oracle.fixtures import broker_under_test
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.client


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_resumes_after_the_broker_was_killed(tmp_path: Path, protocol: str) -> None:
    with required():
        target = broker_under_test(tmp_path)
        target.start()
    try:
        with visiting(client_named("confluent-kafka"), target.bootstrap, tmp_path) as driver:
            group = Group(driver, target, "survivors", "kept", protocol)
            group_resumes_after_a_restart(group, is_killed=True)
    finally:
        target.kill()
