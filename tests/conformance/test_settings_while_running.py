"""Every setting of every kind of resource, set on a running Kafka and on kafkalite one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from kafkalite.config.client_metrics import client_metrics_keys
from kafkalite.config.keys import (
    broker_keys,
    dynamic_broker_keys,
    group_config_keys,
    topic_keys,
)
from tests.conformance.compare import differences
from tests.conformance.scenario_runs import play
from tests.conformance.scenarios.configs import (
    BROKER,
    CLIENT_METRICS,
    GROUP,
    OWN_KEYS,
    SET,
    TOPIC,
    alter,
)
from tests.conformance.setup import create_topic
from tests.conformance.test_settings_at_start import values_to_try

if TYPE_CHECKING:
    from tests.conformance.scenario_cluster import ScenarioCluster
    from tests.oracle.target import Target

pytestmark = [pytest.mark.oracle, pytest.mark.endurance]

_NOT_COMPARED: Final = OWN_KEYS | {
    # kafkalite refuses empty names at any time, Kafka only at the start.
    "config.providers",
    # The tests configure less of it for a real Kafka.
    "log.cleaner.dedupe.buffer.size",
    "log.cleaner.threads",
}


def every_setting_is_tried_alone(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    for resource_type, name, keys in (
        (TOPIC, cluster.name, topic_keys()),
        (GROUP, cluster.name, group_config_keys()),
        (CLIENT_METRICS, cluster.name, client_metrics_keys()),
        (BROKER, "1", {**broker_keys(), **dynamic_broker_keys()}),
        (BROKER, "", dynamic_broker_keys()),
    ):
        for key, definition in keys.items():
            for value in () if key in _NOT_COMPARED else values_to_try(definition.type):
                request = alter(resource_type, name, (key, SET, value), validate_only=True)
                answer = cluster.connection("main").call(request, 1)
                cluster.record(
                    f"{resource_type} {name!r} {key}={value}", answer.responses[0].error_code
                )


def test_kafkalite_accepts_the_settings_that_kafka_accepts(
    real_kafka: Target, emulator: Target
) -> None:
    lines = differences(
        play(every_setting_is_tried_alone, real_kafka), play(every_setting_is_tried_alone, emulator)
    )
    assert not lines, "\n".join(lines)
