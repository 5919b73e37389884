"""Credentials of the users in the settings are stored once."""

from __future__ import annotations

from kafkalite.ports.seeded_entropy import SeededEntropy
from kafkalite.security.sasl.scram_credentials import SCRAM_BY_NUMBER, is_password_of
from kafkalite.security.sasl.users import User, users_of
from kafkalite.server.scram_users import store_users
from tests.cluster.metadata import MetadataCluster


def test_credentials_are_stored_for_the_mechanisms_of_each_user() -> None:
    cluster = MetadataCluster()
    users = [
        User("alice", "a"),
        User("bob", "b", ("SCRAM-SHA-256",)),
        User("carol", "c", ("PLAIN",)),
    ]
    store_users(cluster.controller, users, SeededEntropy(1))
    credentials = cluster.image.scram_credentials
    assert sorted(credentials) == [(1, "alice"), (1, "bob"), (2, "alice")]
    assert all(
        is_password_of(SCRAM_BY_NUMBER[number], each, name[0])
        for (number, name), each in credentials.items()
    )
    assert len({each.salt for each in credentials.values()}) == 3


def test_only_a_changed_password_is_stored_again() -> None:
    cluster = MetadataCluster()
    store_users(cluster.controller, users_of({"alice": "a", "bob": "b"}), SeededEntropy(1))
    before, entries = cluster.image.scram_credentials, len(cluster.log.entries)
    store_users(cluster.controller, users_of({"alice": "a", "bob": "b"}), SeededEntropy(2))
    assert len(cluster.log.entries) == entries
    store_users(cluster.controller, users_of({"alice": "a", "bob": "new"}), SeededEntropy(2))
    after = cluster.image.scram_credentials
    assert [key for key in after if after[key] != before[key]] == [(1, "bob"), (2, "bob")]
