"""Classes of SASL settings: those of Kafka are accepted, and others are not."""

from __future__ import annotations

import pytest

from kafkalite.config.broker import BrokerConfig, check_no_plugins
from kafkalite.config.definitions import ConfigError
from kafkalite.config.sasl_classes import CALLBACK_HANDLERS, SASL_CLASSES

PACKAGE = "org.apache.kafka.common.security.oauthbearer"
HANDLER_KEY = "listener.name.a.oauthbearer.sasl.server.callback.handler.class"
VALIDATOR_KEY = "sasl.oauthbearer.jwt.validator.class"


@pytest.mark.parametrize(
    ("key", "name"),
    [
        *((HANDLER_KEY, name) for name in CALLBACK_HANDLERS["OAUTHBEARER"]),
        (VALIDATOR_KEY, f"{PACKAGE}.BrokerJwtValidator"),
        (VALIDATOR_KEY, f"{PACKAGE}.DefaultJwtValidator"),
    ],
)
def test_a_class_of_kafka_is_accepted(key: str, name: str) -> None:
    check_no_plugins({key: name})
    assert BrokerConfig.from_text({key: name}).get(key) == name


@pytest.mark.parametrize(
    ("key", "name"),
    [
        (HANDLER_KEY, "com.example.Own"),
        (VALIDATOR_KEY, f"{PACKAGE}.ClientJwtValidator"),
        ("sasl.login.class", CALLBACK_HANDLERS["PLAIN"][0]),
    ],
)
def test_another_class_is_rejected(key: str, name: str) -> None:
    with pytest.raises(ConfigError, match="JVM plug-ins are not supported"):
        check_no_plugins({key: name})


def test_every_callback_handler_can_be_configured() -> None:
    handlers = {each for names in CALLBACK_HANDLERS.values() for each in names}
    assert SASL_CLASSES["sasl.server.callback.handler.class"] == handlers
