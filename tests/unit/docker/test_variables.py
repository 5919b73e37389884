"""The tables of variables, and the names of properties."""

from __future__ import annotations

import pytest

from kafkalite.config.broker import is_known_key
from kafkalite.config.keys import broker_keys
from kafkalite.docker.variables import (
    BITNAMI_DEFAULTS,
    OPTION_NAMES,
    OPTIONS,
    REMOVED_PROPERTIES,
    REPLICATION_PROPERTIES,
    SECRET_FILES,
    STORE_FILES,
    property_name,
    variable_name,
)


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("KAFKA_NUM_PARTITIONS", "num.partitions"),
        ("KAFKA_CFG_NUM_PARTITIONS", "num.partitions"),
        ("KAFKA_LISTENER_NAME_SASL__SSL_PLAIN_SASL_JAAS_CONFIG",
         "listener.name.sasl_ssl.plain.sasl.jaas.config"),
        ("KAFKA_LISTENER_NAME_A_SCRAM___SHA___256_SASL_JAAS_CONFIG",
         "listener.name.a.scram-sha-256.sasl.jaas.config"),
        ("KAFKA_LISTENER_NAME_A_SCRAM-SHA-256_SASL_JAAS_CONFIG",
         "listener.name.a.scram-sha-256.sasl.jaas.config"),
    ],
)  # fmt: skip
def test_variable_sets_a_property(variable: str, name: str) -> None:
    assert property_name(variable) == name


def test_every_property_has_a_variable() -> None:
    for key in broker_keys():
        assert property_name(variable_name(key)) == key


def test_tables_name_properties_of_brokers() -> None:
    targets = {file.target for file in STORE_FILES}
    for key in (*targets, *BITNAMI_DEFAULTS, *REPLICATION_PROPERTIES):
        assert is_known_key(key), key


def test_removed_properties_are_none_that_a_broker_reads() -> None:
    read_by_clients_only = {"delegation.token.master.key", "sasl.jaas.config"}
    assert {key for key in REMOVED_PROPERTIES if key in broker_keys()} <= read_by_clients_only


def test_names_of_options_are_unique() -> None:
    assert len(OPTION_NAMES) == len(OPTIONS)
    assert set(SECRET_FILES) <= OPTION_NAMES
