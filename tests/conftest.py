"""What holds for every test: how long properties look, and who is asked once more."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

# A machine that is busy with the clients of other tests draws and runs slowly; that is no fault
# of the code under test.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
# By default the same examples every time, so that a change is judged by what it changes; the long
# search is for new ones.
settings.register_profile("quick", _PATIENT, derandomize=True)
settings.register_profile("long", _PATIENT, max_examples=1_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or "quick")


_PIPELINE = "spark"
"""The directories of its tests, and their marker."""

# The extra is large, so its tests are a run of their own.
collect_ignore_glob = [] if find_spec("pyspark") else ["spark/*", "unit/spark/*"]


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ask whoever is not ours once more: real clients and brokers have races of their own.

    The summary tells of each time it was needed. What is ours alone must hold the first time. What
    needs the extra of the pipeline is marked so, whether or not it starts a session.
    """
    for item in items:
        if _PIPELINE in item.path.parts:
            item.add_marker(_PIPELINE)
        if item.get_closest_marker("client") or item.get_closest_marker("oracle"):
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Start the one Spark session of this process: on this machine, quick to start."""
    from kafkalite.spark.session import start  # noqa: PLC0415 - heavy, and for few tests

    session = start("local[2]", quick=True)
    yield session
    session.stop()
