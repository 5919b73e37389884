"""Operations and resources of ACLs, with Kafka's codes; entities that messages and events name."""

from __future__ import annotations

from enum import Enum
from typing import Final

from kafkalite.ports.int_enums import IntEnum


class Operation(IntEnum):
    """Operations of ACLs, with Kafka's codes."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Resource(IntEnum):
    """Resource types of ACLs, with Kafka's codes."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Entity(Enum):
    """Kinds of entities in messages and events.

    The value is the attribute of `catalogue.Fields` with their places in messages.
    """

    GROUP = "group"
    MEMBER = "member"
    INSTANCE = "instance"
    TRANSACTIONAL_ID = "transactional_id"
    PRODUCER_ID = "producer_id"
    TOPIC = "topic"
    TOPIC_ID = "topic_id"
    PARTITION = "partition"
    BROKER = "broker"
    CONFIG_RESOURCE = "config_resource"
    USER = "user"
    CLIENT = "client"
    """Addresses of clients, which events name, and no message."""


ACL_RULE: Final = "acl"
"""The `rule` in the facts of a refusal that an ACL, or the lack of one, caused."""
