"""A group is migrated from the classic to the consumer protocol and back during writes.

One member after the other leaves and returns with the other protocol, so that in between the group
has members of both. No record is lost, and no committed record is read again. The fixture
`connected` marks the clients that pip does not install with `endurance`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient

from tests.clients.client_scenario import (
    PARTITIONS,
    ConsumerHistory,
    Group,
    assert_equal_and_in_order,
)
from tests.clients.observer import commit_the_beginning
from tests.clients.records import some_records

if TYPE_CHECKING:
    from tests.clients.conftest import ConnectedClient
    from tests.clients.drivers.protocol import SentRow

pytestmark = pytest.mark.client

PROTOCOLS = {"java": ("classic", "cooperative"), "confluent-kafka": ("classic", "classic")}
"""Clients that support the consumer protocol too, and their classic and consumer protocols.

librdkafka's cooperative assignor sends its own user data with the assignments. The data would
be lost in a consumer group, so Kafka and kafkalite do not upgrade such a group.
"""

_SLICE = 1_000
_TIMEOUT_S = 10.0


def group_type(bootstrap: str, group: str) -> str:
    """Return the current type of a group, as ListGroups returns it."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    listed = admin.list_consumer_groups(request_timeout=_TIMEOUT_S).result(_TIMEOUT_S).valid
    (listing,) = [row for row in listed if row.group_id == group]
    return str(listing.type.name)


class RollingMigration:
    """A group whose members change their protocol one by one."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.history = ConsumerHistory()
        self.sent: list[SentRow] = []

    def produce(self) -> None:
        records = some_records(_SLICE, PARTITIONS, start=len(self.sent))
        self.sent.extend(records)
        self.group.driver.produce(self.group.topic, "none", records)

    def roll(self, old: str, new: str, protocol: str) -> None:
        """Replace a member while records are written."""
        self.produce()
        self.group.leave(old)
        self.produce()
        replace(self.group, protocol=protocol).join(new)
        self.history.add_events(self.group.driver.events())

    def type(self) -> str:
        return group_type(self.group.target.bootstrap, self.group.group)


def test_no_record_is_lost_while_a_group_changes_its_protocol(connected: ConnectedClient) -> None:
    if connected.client.name in PROTOCOLS:
        old, new = PROTOCOLS[connected.client.name]
        _migrate_and_return(Group(connected.driver, connected.target, "rolled", "rolled", old), new)


def _migrate_and_return(group: Group, last_protocol: str) -> None:
    name = group.group
    group.driver.create_topic(name, PARTITIONS)
    commit_the_beginning(group.target.bootstrap, name, name, PARTITIONS)
    rolling = RollingMigration(group)
    group.join("one", "two")
    assert rolling.type() == "CLASSIC"
    rolling.roll("one", "three", "consumer")
    assert rolling.type() == "CONSUMER"
    rolling.roll("two", "four", "consumer")
    rolling.roll("three", "five", last_protocol)
    assert rolling.type() == "CONSUMER"
    rolling.roll("four", "six", last_protocol)
    assert rolling.type() == "CLASSIC"
    rolling.produce()
    group.wait_until_read(rolling.history, len(rolling.sent))
    assert_equal_and_in_order(rolling.sent, rolling.history.records())
    group.wait_until_committed()
    for consumer in ("five", "six"):
        group.driver.leave(consumer)
    rolling.history.add_events(group.driver.events())
