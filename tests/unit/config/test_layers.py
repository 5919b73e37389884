"""Synonyms: every layer that says something, nearest first, from the key itself on."""

from __future__ import annotations

from kafkalite.config.layers import BrokerLayers, ConfigSource, Synonym

NOTHING = BrokerLayers(node={}, everybody={}, static={})


def test_a_plain_key_has_its_default_alone() -> None:
    assert NOTHING.synonyms("message.max.bytes") == (
        Synonym("message.max.bytes", "1048588", ConfigSource.DEFAULT),
    )


def test_layers_come_in_the_order_in_which_they_count() -> None:
    layers = BrokerLayers(
        node={"message.max.bytes": "1"},
        everybody={"message.max.bytes": "2"},
        static={"message.max.bytes": "3"},
    )
    found = layers.synonyms("message.max.bytes")
    assert [(each.value, each.source) for each in found] == [
        ("1", ConfigSource.DYNAMIC_BROKER),
        ("2", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("3", ConfigSource.STATIC_BROKER),
        ("1048588", ConfigSource.DEFAULT),
    ]


def test_what_comes_before_the_key_itself_is_left_out() -> None:
    """As in Kafka: without a value of its own, a key shows no synonyms at all."""
    assert NOTHING.synonyms("log.retention.ms") == ()
    layers = BrokerLayers(node={}, everybody={"log.retention.ms": "5"}, static={})
    assert [each.name for each in layers.synonyms("log.retention.ms")] == [
        "log.retention.ms",
        "log.retention.hours",
    ]
    assert [each.name for each in layers.synonyms("log.retention.hours")] == ["log.retention.hours"]


def test_secrets_are_named_and_not_shown() -> None:
    layers = BrokerLayers(node={}, everybody={}, static={"ssl.key.password": "secret"})
    assert layers.synonyms("ssl.key.password", is_sensitive=True) == (
        Synonym("ssl.key.password", None, ConfigSource.STATIC_BROKER),
    )


def test_a_listener_key_knows_the_key_that_it_overrides() -> None:
    name = "listener.name.internal.ssl.client.auth"
    layers = BrokerLayers(node={}, everybody={}, static={name: "required"})
    assert [each.name for each in layers.synonyms(name)] == [name, "ssl.client.auth"]
