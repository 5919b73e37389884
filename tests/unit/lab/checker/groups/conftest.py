"""The requests of groups in a capture of the Java client at an Apache Kafka 4.4.0."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.capture.reading.captures import ignore
from kafkalite.lab.checker.groups.requests import captured_requests
from tests.captures.member_lives import CAPTURE

if TYPE_CHECKING:
    from kafkalite.lab.checker.groups.requests import GroupRequests


@pytest.fixture(scope="session")
def member_lives() -> GroupRequests:
    return captured_requests([CAPTURE], ignore)
