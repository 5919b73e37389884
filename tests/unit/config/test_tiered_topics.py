"""Topics with tiered storage: the rules and the texts of Kafka 4.4's LogConfig."""

from __future__ import annotations

import pytest

from kafkalite.config.broker import BrokerConfig
from kafkalite.config.definitions import ConfigError
from kafkalite.config.tiered_topics import disabled_topics
from kafkalite.config.topic import check_topic_values

ENABLED = BrokerConfig.from_text({"remote.log.storage.system.enable": "true"})
TIERED = {"remote.storage.enable": "true"}
POLICY = (
    "Remote log storage only supports topics with cleanup.policy=delete or cleanup.policy being an "
    "empty list."
)
READ_ONLY = (
    "When `remote.log.copy.disable` is set to true, the `local.retention.{0}` and `retention.{0}` "
    "must be set to the identical value because there will be no more logs copied to the remote "
    "storage."
)
KEEPS_DATA = (
    "It is invalid to disable remote storage without deleting remote data. If you want to keep the "
    "remote data and turn to read only, please set "
    "`remote.storage.enable=true,remote.log.copy.disable=true`. If you want to disable remote "
    "storage and delete all remote data, please set "
    "`remote.storage.enable=false,remote.log.delete.on.disable=true`."
)


def refusal(own: dict[str, str], existing: dict[str, str], broker: BrokerConfig) -> str | None:
    """Return the text of the error, None without one."""
    try:
        check_topic_values(own, broker, existing)
    except ConfigError as error:
        return error.message
    return None


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({}, None),
        ({"cleanup.policy": ""}, None),
        ({"cleanup.policy": "compact"}, POLICY),
        ({"cleanup.policy": "delete,compact"}, POLICY),
        (
            {"local.retention.ms": "604800001"},
            (
                "Invalid value 604800001 for configuration local.retention.ms: Value must not be "
                "more than retention.ms property value: 604800000"
            ),
        ),
        (
            {"local.retention.ms": "-1"},
            (
                "Invalid value -1 for configuration local.retention.ms: Value must not be -1 as "
                "retention.ms value is set as 604800000."
            ),
        ),
        ({"local.retention.ms": "-1", "retention.ms": "-1"}, None),
        ({"local.retention.bytes": "5"}, None),
        (
            {"local.retention.bytes": "6", "retention.bytes": "5"},
            (
                "Invalid value 6 for configuration local.retention.bytes: Value must not be "
                "more than retention.bytes property value: 5"
            ),
        ),
        (
            {"remote.copy.lag.ms": "604800001"},
            (
                "Invalid value 604800001 for configuration remote.copy.lag.ms: Value must not "
                "exceed local.retention.ms (effective value: 604800000)"
            ),
        ),
        (
            {"remote.copy.lag.bytes": "3", "local.retention.bytes": "2"},
            (
                "Invalid value 3 for configuration remote.copy.lag.bytes: Value must not exceed "
                "local.retention.bytes (effective value: 2)"
            ),
        ),
        ({"remote.log.copy.disable": "true"}, None),
        (
            {"remote.log.copy.disable": "true", "local.retention.ms": "5"},
            READ_ONLY.format("ms"),
        ),
        (
            {"remote.log.copy.disable": "true", "local.retention.bytes": "5"},
            READ_ONLY.format("bytes"),
        ),
        ({"remote.log.copy.disable": "true", "retention.ms": "5", "local.retention.ms": "5"}, None),
    ],
)
def test_settings_of_a_tiered_topic_fit_each_other(
    own: dict[str, str], message: str | None
) -> None:
    assert refusal({**TIERED, **own}, {}, ENABLED) == message
    if own:
        assert refusal(own, {}, ENABLED) is None


def test_defaults_of_the_broker_count() -> None:
    broker = BrokerConfig.from_text(
        {"remote.log.storage.system.enable": "true", "log.local.retention.ms": "1000"}
    )
    assert refusal({**TIERED, "retention.ms": "999"}, {}, broker) == (
        "Invalid value 1000 for configuration local.retention.ms: Value must not be "
        "more than retention.ms property value: 999"
    )


@pytest.mark.parametrize("broker", [ENABLED, BrokerConfig.from_text()])
@pytest.mark.parametrize("own", [{}, {"remote.storage.enable": "false"}])
def test_a_topic_leaves_tiered_storage_with_its_remote_data(
    own: dict[str, str], broker: BrokerConfig
) -> None:
    assert refusal(own, TIERED, broker) == KEEPS_DATA
    assert refusal({**own, "remote.log.delete.on.disable": "true"}, TIERED, broker) is None
    assert refusal(own, {"remote.storage.enable": "false"}, broker) is None


def test_a_broker_without_tiered_storage_refuses_it() -> None:
    assert refusal(TIERED, TIERED, BrokerConfig.from_text()) == (
        "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with "
        "remote log storage."
    )


def test_topics_with_tiered_storage_are_named_if_the_broker_has_none() -> None:
    settings = {"b": TIERED, "a": TIERED, "c": {"remote.storage.enable": "false"}, "d": {}}
    assert disabled_topics(settings, BrokerConfig.from_text()) == ["a", "b"]
    enabled = BrokerConfig.from_text({"remote.log.storage.system.enable": "true"})
    assert not disabled_topics(settings, enabled)
