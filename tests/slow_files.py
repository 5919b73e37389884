"""The files of tests that take longest: a parallel run begins with them, so that none is last."""

from __future__ import annotations

from typing import Final

SLOW_FILES: Final = (
    # With a real Kafka, JVMs or long runs.
    "tests/clients/test_exactly_once.py",
    "tests/clients/test_proxy.py",
    "tests/clients/test_security_matrix.py",
    "tests/portability/test_core.py",
    "tests/clients/test_connect.py",
    "tests/conformance/test_authorization.py",
    "tests/conformance/test_scenarios.py",
    "tests/conformance/test_known_differences.py",
    "tests/examples/test_java.py",
    "tests/clients/test_streams_releases.py",
    "tests/conformance/test_admin_scoreboard.py",
    "tests/conformance/test_features.py",
    "tests/packaging/test_package.py",
    "tests/conformance/test_nodes.py",
    "tests/conformance/test_isolated_nodes.py",
    "tests/conformance/test_secured_controllers.py",
    "tests/clients/test_streams_exactly_once.py",
    "tests/clients/test_killed_broker.py",
    "tests/clients/test_connect_releases.py",
    "tests/properties/test_truncation_crashes.py",
    "tests/properties/test_storage_crashes.py",
    "tests/clients/test_kafka_streams.py",
    "tests/properties/test_failing_transactions.py",
    # With Spark.
    "tests/spark/test_local_engine.py",
    "tests/spark/test_cluster.py",
    "tests/spark/test_follow.py",
    "tests/spark/test_pipeline.py",
    # In the default run.
    "tests/docs/test_code_blocks.py",
    "tests/clients/test_real_clients.py",
    "tests/perf/test_hostile_requests.py",
    "tests/unit/lab/columnar/test_reading.py",
    "tests/conformance/test_recorded.py",
    "tests/unit/cli/test_serve.py",
    "tests/unit/lab/columnar/decoding/test_decode.py",
    "tests/properties/test_codecs.py",
    "tests/scenarios/test_long_requests.py",
    "tests/unit/docker/test_recipes.py",
    "tests/unit/testing/test_plugin.py",
    "tests/examples/test_examples.py",
    "tests/properties/test_dead_letter_crashes.py",
    "tests/unit/docker/test_programs.py",
    "tests/perf/test_long_decisions.py",
    "tests/perf/test_fairness.py",
    "tests/architecture/test_rules.py",
    "tests/properties/test_group_replay.py",
    "tests/scenarios/test_hostile_group_requests.py",
)
"""Slowest first; a file with few tests is not noticed otherwise."""
