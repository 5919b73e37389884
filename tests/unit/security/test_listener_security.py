"""The settings of a listener, and their precedence."""

from __future__ import annotations

import pytest

from kafkalite.config.broker import BrokerConfig
from kafkalite.config.definitions import ConfigError
from kafkalite.config.security_protocols import SecurityProtocol
from kafkalite.security.listener_security import ListenerSecurity, ProposedValues


def from_text(text: dict[str, str], name: str = "OUTSIDE") -> ListenerSecurity:
    return ListenerSecurity(name, SecurityProtocol.SASL_SSL, BrokerConfig.from_text(text))


def test_a_setting_of_the_listener_has_precedence() -> None:
    text = {
        "ssl.client.auth": "none",
        "listener.name.outside.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.outside.sasl.enabled.mechanisms": "SCRAM-SHA-256,PLAIN",
        "listener.name.outside.sasl.server.max.receive.size": "1000",
        "listener.name.OUTSIDE.ssl.keystore.location": "/ignored",
    }
    outside, inside = from_text(text), from_text(text, "INSIDE")
    assert (outside.str("ssl.client.auth"), inside.str("ssl.client.auth")) == ("required", "none")
    assert outside.list("sasl.enabled.mechanisms") == ("SCRAM-SHA-256", "PLAIN")
    assert inside.list("sasl.enabled.mechanisms") == ("PLAIN",)
    assert outside.int("sasl.server.max.receive.size") == 1000
    assert inside.int("sasl.server.max.receive.size") == 524_288
    assert outside.str_or_none("ssl.keystore.location") is None


def test_a_dynamic_setting_applies_to_the_next_read() -> None:
    config = BrokerConfig.from_text({"ssl.client.auth": "none"})
    outside = ListenerSecurity("OUTSIDE", SecurityProtocol.SSL, config)
    assert not outside.has_own("ssl.client.auth")
    config.publish({}, {}, {1: {"listener.name.outside.ssl.client.auth": "requested"}})
    assert outside.has_own("ssl.client.auth")
    assert outside.str("ssl.client.auth") == "requested"


def test_a_setting_of_a_mechanism_has_precedence() -> None:
    text = {
        "connections.max.reauth.ms": "1",
        "listener.name.outside.connections.max.reauth.ms": "2",
        "listener.name.outside.scram-sha-256.connections.max.reauth.ms": "3",
    }
    outside = from_text(text)
    assert outside.mechanism_get("SCRAM-SHA-256", "connections.max.reauth.ms") == 3
    assert outside.mechanism_get("PLAIN", "connections.max.reauth.ms") == 2
    assert from_text(text, "B").mechanism_get("PLAIN", "connections.max.reauth.ms") == 1


def test_an_invalid_setting_of_a_mechanism_is_rejected() -> None:
    outside = from_text({"listener.name.outside.plain.connections.max.reauth.ms": "soon"})
    with pytest.raises(ConfigError):
        outside.mechanism_get("PLAIN", "connections.max.reauth.ms")


def test_jaas_texts_belong_to_a_listener_and_a_mechanism() -> None:
    text = {
        "sasl.jaas.config": "ignored",
        "listener.name.outside.sasl.jaas.config": "ignored",
        "listener.name.outside.plain.sasl.jaas.config": "PlainLoginModule required;",
    }
    assert from_text(text).jaas_config("PLAIN") == "PlainLoginModule required;"
    assert from_text(text).jaas_config("SCRAM-SHA-256") is None
    assert from_text(text, "B").jaas_config("PLAIN") is None


def test_a_value_of_another_type_is_not_returned() -> None:
    outside = from_text({})
    with pytest.raises(TypeError):
        outside.str("ssl.keystore.location")
    with pytest.raises(TypeError):
        outside.int("ssl.client.auth")
    with pytest.raises(TypeError):
        outside.list("ssl.client.auth")
    assert outside.list("ssl.cipher.suites") == ()
    with pytest.raises(KeyError):
        outside.get("no.such.key")


def test_an_integer_of_a_mechanism_has_precedence_over_that_of_the_broker() -> None:
    key = "connections.max.reauth.ms"
    outside = from_text({key: "5", f"listener.name.outside.plain.{key}": "7"})
    assert outside.mechanism_int("PLAIN", key) == 7
    assert outside.mechanism_int("SCRAM-SHA-256", key) == 5
    with pytest.raises(TypeError, match=r"ssl.client.auth is not an integer"):
        outside.mechanism_int("PLAIN", "ssl.client.auth")


def test_proposed_values_are_read_by_a_function() -> None:
    values = {"connections.max.reauth.ms": 3}
    security = from_text({})._replace(config=ProposedValues(values.__getitem__))
    assert security.int("connections.max.reauth.ms") == 3
    assert not security.has_own("connections.max.reauth.ms")
