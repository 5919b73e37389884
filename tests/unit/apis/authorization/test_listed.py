"""Names in responses that only some clients may see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from kafkalite.apis.authorization.listed import listed_filter
from kafkalite.protocol._generated.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponse,
)
from kafkalite.protocol._generated.messages.describe_transactions import (
    DescribeTransactionsResponse,
)
from kafkalite.protocol._generated.messages.list_groups import ListGroupsResponse
from kafkalite.protocol.acl_operations import Operation, Resource
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.security.acls import CLUSTER_NAME

if TYPE_CHECKING:
    from kafkalite.security.permissions import Permissions

Described = ConsumerGroupDescribeResponse


class Allowed:
    """Permissions to describe some resources."""

    def __init__(self, *resources: tuple[Resource, str]) -> None:
        self._resources = resources

    def allows(self, operation: Operation, resource: Resource, name: str) -> bool:
        return operation is Operation.DESCRIBE and (resource, name) in self._resources


def visible(
    key: ApiKey, response: object, *allowed: tuple[Resource, str], message: str = ""
) -> Any:  # noqa: ANN401 - the response
    hide = listed_filter(key, message)
    assert hide is not None
    return hide(cast("Permissions", Allowed(*allowed)), response)


def groups(*names: str) -> ListGroupsResponse:
    return ListGroupsResponse(
        groups=[ListGroupsResponse.ListedGroup(group_id=name) for name in names]
    )


def test_names_are_removed_from_a_copy_of_the_response() -> None:
    response = groups("a", "b")
    shown = visible(ApiKey.LIST_GROUPS, response, (Resource.GROUP, "b"))
    assert (shown, response) == (groups("b"), groups("a", "b"))


def test_another_permission_can_be_sufficient_for_all_names() -> None:
    response = groups("a", "b")
    assert visible(ApiKey.LIST_GROUPS, response, (Resource.CLUSTER, CLUSTER_NAME)) is response


def test_names_inside_the_rows_of_a_response_are_removed() -> None:
    def described(*topics: str) -> DescribeTransactionsResponse:
        rows = [DescribeTransactionsResponse.TopicData(topic=each) for each in topics]
        state = DescribeTransactionsResponse.TransactionState(transactional_id="t", topics=rows)
        return DescribeTransactionsResponse(transaction_states=[state])

    shown = visible(ApiKey.DESCRIBE_TRANSACTIONS, described("a", "b"), (Resource.TOPIC, "b"))
    assert shown == described("b")


def test_a_row_with_a_name_that_is_not_visible_is_replaced_by_an_error() -> None:
    def group(name: str, *topics: str) -> Described.DescribedGroup:
        partitions = [Described.TopicPartitions(topic_name=each) for each in topics]
        assigned = Described.Assignment(topic_partitions=partitions)
        member = Described.Member(assignment=assigned, target_assignment=Described.Assignment())
        return Described.DescribedGroup(group_id=name, members=[member])

    response = Described(groups=[group("g", "a"), group("h", "a", "b")])
    shown = visible(
        ApiKey.CONSUMER_GROUP_DESCRIBE, response, (Resource.TOPIC, "a"), message="hidden"
    )
    refused = Described.DescribedGroup(
        group_id="h", error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, error_message="hidden"
    )
    assert shown.groups == [group("g", "a"), refused]


@pytest.mark.parametrize("key", [ApiKey.HEARTBEAT, ApiKey.CREATE_TOPICS])
def test_an_api_without_such_names_has_no_filter(key: ApiKey) -> None:
    assert listed_filter(key, "") is None
