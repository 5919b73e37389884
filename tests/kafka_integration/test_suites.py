"""Integration tests of Streams, Connect and clients of Kafka pass with a cluster of kafkalite."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.kafka_integration.suites import CLIENTS, CONNECT, STREAMS, run_suite, stored_results
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from pathlib import Path

_PARAMETERS: Final = "(java.lang.String, boolean)"
# Exactly once, repartitioning by both protocols of groups, internal topics, and an admin client.
_TESTS: Final = (
    f"{CONNECT}.ExactlyOnceSourceIntegrationTest#testConnectorBoundary()",
    f"{STREAMS}.KStreamRepartitionIntegrationTest#shouldRepartitionToMultiplePartitions{_PARAMETERS}",
    f"{STREAMS}.InternalTopicIntegrationTest",
    f"{CLIENTS}.admin.ConcurrentListOffsetsRequestTest",
)
_TIMEOUT_S: Final = 900


@pytest.mark.endurance
@pytest.mark.timeout(_TIMEOUT_S + 100)
def test_integration_tests_of_kafka_pass(tmp_path: Path) -> None:
    with required():
        run = run_suite(_TESTS, tmp_path, _TIMEOUT_S)
    log = (tmp_path / "junit.log").read_text(errors="replace")
    assert not run.failures, "\n".join(run.failures)
    names = {name.partition("#")[0] for name in _TESTS}
    assert {result.name for result in run.results if result.passed} == names, log[-2000:]


def test_every_stored_result_is_a_pass_or_has_a_reason() -> None:
    results = stored_results().values()
    assert results
    for result in results:
        assert (result.passed > 0 and not result.failed) or result.note, result.name
