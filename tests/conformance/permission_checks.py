"""Requests of a client whose permissions are changed before: `alice`, who has no others."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, Protocol

from kafkalite.protocol._generated.messages.create_acls import CreateAclsRequest
from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.delete_acls import DeleteAclsRequest
from kafkalite.protocol._generated.messages.delete_topics import DeleteTopicsRequest
from kafkalite.protocol._generated.messages.describe_acls import DescribeAclsRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from tests.conformance.normalization import Normaliser
from tests.unit.apis.authorization.requests import MISSING_TOPIC, TOPIC, request_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.protocol.message import Message
    from tests.unit.apis.authorization.requests import Case, Needs

ALICE: Final = "User:alice"
CLOSED: Final = "the connection was closed"
SETTLE_S: Final = 5.0
IGNORED = frozenset((
    "host", "controller_id", "base_offset", "cluster_id", "acquisition_lock_timeout_ms",
    "last_timestamp",
))  # fmt: skip
"""Fields that differ between a process and a wire, or that depend on earlier requests."""


class Asked(Protocol):
    """A broker, its administrator and the client whose requests are compared."""

    def ask(self, request: Message, version: int, *, as_admin: bool = False) -> Any:  # noqa: ANN401 - any response
        """Return the response, or CLOSED."""


def topic_ids(broker: Asked) -> Mapping[str, bytes]:
    response = broker.ask(MetadataRequest(topics=None), 12, as_admin=True)
    return {topic.name: topic.topic_id for topic in response.topics}


def wait_until(is_reached: Any) -> None:  # noqa: ANN401 - any predicate
    deadline = time.monotonic() + SETTLE_S
    while not is_reached() and time.monotonic() < deadline:
        time.sleep(0.02)


def create_topic(broker: Asked, name: str) -> None:
    topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    broker.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7, as_admin=True)
    wait_until(lambda: name in topic_ids(broker))


def restore(broker: Asked) -> None:
    """Undo the changes of requests that were allowed."""
    known = topic_ids(broker)
    if MISSING_TOPIC in known:
        state = DeleteTopicsRequest.DeleteTopicState(name=MISSING_TOPIC)
        broker.ask(DeleteTopicsRequest(topics=[state], timeout_ms=10_000), 6, as_admin=True)
        wait_until(lambda: MISSING_TOPIC not in topic_ids(broker))
    if TOPIC not in known:
        create_topic(broker, TOPIC)


def grant(broker: Asked, needs: Sequence[Needs]) -> None:
    """Replace all ACLs, and wait until the broker knows them."""
    everything: dict[str, Any] = {"operation": 1, "permission_type": 1, "resource_type_filter": 1,
                  "resource_name_filter": None, "pattern_type_filter": 1,
                  "principal_filter": None, "host_filter": None}  # fmt: skip
    selection = DeleteAclsRequest.DeleteAclsFilter(**everything)
    broker.ask(DeleteAclsRequest(filters=[selection]), 3, as_admin=True)
    creations = [
        CreateAclsRequest.AclCreation(
            resource_type=need.resource, resource_name=need.resource_name, principal=ALICE,
            host="*", operation=need.operation, permission_type=3,
        )
        for need in needs
    ]  # fmt: skip
    broker.ask(CreateAclsRequest(creations=creations), 3, as_admin=True)

    def is_known() -> bool:
        described = broker.ask(DescribeAclsRequest(**everything), 3, as_admin=True)
        return sum(len(each.acls) for each in described.resources) == len(needs)

    wait_until(is_known)


def tree_of(broker: Asked, case: Case, version: int, ids: Mapping[str, bytes]) -> Any:  # noqa: ANN401 - a tree
    response = broker.ask(request_of(case, version, ids), version)
    if response == CLOSED:
        return CLOSED
    normaliser = Normaliser(IGNORED)
    for name, topic_id in ids.items():
        normaliser.name("topic_id", topic_id, f"id of {name}")
    return normaliser.tree(response)
