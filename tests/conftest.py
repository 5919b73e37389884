"""Settings of all tests: Hypothesis profiles, markers, retries, garbage collection."""

from __future__ import annotations

import gc
import os
import sys
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from tests.file_selection import IMPLIED, LEVELS, can_have_selected_tests, named_levels
from tests.slow_files import SLOW_FILES

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

# Each of the hundreds of processes that tests start would compile its modules again, and each
# process of a parallel run all test modules. It must be set before those processes start.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Examples take longer while other tests keep the processors busy.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
# By default, the examples are the same in every run. The long profile searches for new ones.
settings.register_profile("quick", _PATIENT, derandomize=True)
settings.register_profile("long", _PATIENT, max_examples=1_000)
_profile = os.environ.get("HYPOTHESIS_PROFILE") or "quick"
settings.load_profile(_profile)
if _profile == "quick":
    # Each process would parse all modules of the package to find constants for examples.
    providers._get_local_constants = lambda: providers._local_constants


_failed: list[str] = []

_FAIL_FIRST = "--fail-first-attempt"

_PIPELINE = "spark"
"""The name of the pipeline's test directories and of their marker."""

# The extra is large, so its tests have their own marker.
collect_ignore_glob = [] if find_spec("pyspark") else ["spark/*", "unit/lab/spark/*"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add an option that tests the retries."""
    parser.addoption(
        _FAIL_FIRST,
        action="store_true",
        help="fail the first attempt of each test that is retried; the second one must pass",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the hooks of parallel runs."""
    if config.pluginmanager.hasplugin("xdist"):
        from tests import parallel_runs  # noqa: PLC0415 - it needs pytest-xdist

        parallel_runs.register(config)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Let the processes of a parallel run collect directories from different places on.

    The processes collect all tests. In a new clone each compiles the modules that no other process
    has compiled, so three that begin at different places compile a third of them each.
    """
    report = yield
    if isinstance(collector, pytest.Directory):
        found, place = report.result, (_process_number() or 0) % 3
        if place == 1:
            found.reverse()
        elif place == 2:
            third = len(found) // 3
            report.result = found[third:] + found[:third]
    return report


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import a file whose markers exclude that `-m` selects one of its tests."""
    if not collection_path.match("test_*.py"):
        return None
    can = can_have_selected_tests(
        collection_path.read_text(encoding="utf-8"),
        config.option.markexpr,
        is_of_pipeline=_is_of_pipeline(collection_path, config.rootpath),
    )
    return None if can else True


@cache
def _levels_named_in(path: Path) -> set[str]:
    return named_levels(path.read_text(encoding="utf-8"))


def _process_number() -> int | None:
    """Return the number of this process among those of a parallel run, None in another run."""
    name = os.environ.get("PYTEST_XDIST_WORKER")
    return None if name is None else int(name.removeprefix("gw"))


@pytest.hookimpl(wrapper=True, tryfirst=True)  # before tests are chosen by their markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None]:
    """Mark tests by what they need, and order them.

    The tests of the slowest files come first, also after their order became random. All processes
    must have the same order.
    """
    if _process_number() is not None:
        items.sort(key=lambda item: item.path.parts)  # the order in which one process collects
    _mark(items)
    yield
    ranks = {name: number for number, name in enumerate(SLOW_FILES)}
    items.sort(key=lambda item: ranks.get(item.nodeid.partition("::")[0], len(ranks)))


def _mark(items: list[pytest.Item]) -> None:
    """Mark tests by what they need, and retry twice those that run third-party software.

    Real clients and brokers have races of their own; the summary reports each retry. A test of
    kafkalite alone must pass the first time. A test in a directory of the pipeline needs the extra
    `spark`, whether or not it starts a session. A real Kafka takes too long for the short run.
    """
    for item in items:
        names = {marker.name for marker in item.iter_markers()}
        if _is_of_pipeline(item.path, item.config.rootpath):
            item.add_marker(_PIPELINE)
        for name in names & IMPLIED.keys():
            item.add_marker(IMPLIED[name])
        for level in names & LEVELS:
            if level not in _levels_named_in(item.path):
                message = f"{item.path} has to name the marker {level} of {item.name}"
                raise pytest.UsageError(message)
        if "container" in names:
            # The first test makes the base image and builds the image.
            item.add_marker(pytest.mark.timeout(900))
        # A busy machine can delay a JVM twice, or the name server of a container engine.
        if not names.isdisjoint(("client", "oracle", "container")):
            item.add_marker(pytest.mark.flaky(reruns=2))


@cache
def _is_of_pipeline(path: Path, root: Path) -> bool:
    return _PIPELINE in path.relative_to(root).parts


def _attempt_of(item: pytest.Item) -> int:
    """Return the number of the attempt, which pytest-rerunfailures counts."""
    return int(getattr(item, "execution_count", 1))


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """With `--fail-first-attempt`, fail the first attempt of a test after it has passed."""
    result = yield
    is_forced = pyfuncitem.config.getoption(_FAIL_FIRST) and _attempt_of(pyfuncitem) == 1
    if is_forced and pyfuncitem.get_closest_marker("flaky"):
        pytest.fail(f"{_FAIL_FIRST}: this attempt had passed", pytrace=False)
    return result


@pytest.fixture
def attempt(request: pytest.FixtureRequest) -> int:
    """Return the number of the attempt: 2 if the test is run again after a failure.

    Brokers that several tests share still have the topics and groups of earlier attempts, so the
    names of a test contain this number.
    """
    return _attempt_of(request.node)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Remember that a test failed; see `pytest_runtest_logstart`."""
    if report.outcome not in ("passed", "skipped"):
        _failed.append(report.nodeid)


def pytest_runtest_logstart() -> None:
    """Discard what a failed test left open, so that no later test is blamed for it.

    The interpreter keeps the traceback of the last failure, and the traceback keeps sockets. They
    would be collected during another test, whose warnings are errors.
    """
    if not _failed:
        return
    _failed.clear()
    for name in ("last_type", "last_value", "last_traceback"):
        if hasattr(sys, name):
            delattr(sys, name)
    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        gc.collect()
    finally:
        sys.unraisablehook = hook


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """Collect tests without garbage collections, which would visit all of them each time."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Exclude all objects from garbage collection from now on: few of them are garbage.

    Few collections suffice for the tests, too: the default thresholds would take a tenth of the
    time of all tests.
    """
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    gc.enable()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Start the Spark session that all tests of this process share."""
    from kafkalite.lab.spark.session import start  # noqa: PLC0415 - heavy, and for few tests

    session = start("local[2]", quick=True)
    yield session
    session.stop()
