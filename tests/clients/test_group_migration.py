"""A group is rolled from the classic to the consumer protocol and back while records flow.

One member after the other leaves and comes back speaking the other protocol, so that in between
members of both are in the group. No record is lost, none comes again that was committed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient

from tests.clients.observer import commit_the_beginning
from tests.clients.records import some_records
from tests.clients.story import PARTITIONS, Group, Witness, assert_equal_and_in_order

if TYPE_CHECKING:
    from tests.clients.conftest import Seat
    from tests.clients.drivers.protocol import SentRow

pytestmark = pytest.mark.client

ROLLED = {"java": ("classic", "cooperative"), "confluent-kafka": ("classic", "classic")}
"""Which clients know the consumer protocol too, and what they are rolled from and back to.

librdkafka's cooperative assignor sends the members a word of its own with their partitions. It
would be lost in a consumer group, so Kafka, and kafkalite, keep such a group classic.
"""

_SLICE = 1_000
_TIMEOUT_S = 10.0


def group_type(bootstrap: str, group: str) -> str:
    """Return which protocol a group speaks now, as listing the groups shows it."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    listed = admin.list_consumer_groups(request_timeout=_TIMEOUT_S).result(_TIMEOUT_S).valid
    (found,) = [each for each in listed if each.group_id == group]
    return str(found.type.name)


class Rolling:
    """A group whose members change their protocol one by one."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.witness = Witness()
        self.sent: list[SentRow] = []

    def produce(self) -> None:
        records = some_records(_SLICE, PARTITIONS, start=len(self.sent))
        self.sent.extend(records)
        self.group.driver.produce(self.group.topic, "none", records)

    def roll(self, old: str, new: str, protocol: str) -> None:
        """Replace a member while records come in."""
        self.produce()
        self.group.leave(old)
        self.produce()
        replace(self.group, protocol=protocol).join(new)
        self.witness.hear(self.group.driver.events())

    def type(self) -> str:
        return group_type(self.group.target.bootstrap, self.group.group)


def test_no_record_is_lost_while_a_group_changes_its_protocol(seat: Seat) -> None:
    if seat.client.name in ROLLED:
        old, new = ROLLED[seat.client.name]
        _roll_there_and_back(Group(seat.driver, seat.target, "rolled", "rolled", old), new)


def _roll_there_and_back(group: Group, last_protocol: str) -> None:
    name = group.group
    group.driver.create_topic(name, PARTITIONS)
    commit_the_beginning(group.target.bootstrap, name, name, PARTITIONS)
    rolling = Rolling(group)
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
    group.wait_until_read(rolling.witness, len(rolling.sent))
    assert_equal_and_in_order(rolling.sent, rolling.witness.records())
    group.wait_until_committed()
    for consumer in ("five", "six"):
        group.driver.leave(consumer)
    rolling.witness.hear(group.driver.events())
