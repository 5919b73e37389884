"""Features, settings of topics, ACLs, users and quotas of a cluster.

APIs that the brokers do not have are not asked: the answer is then empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite import __version__
from kafkalite.client.brokers import ask_controller
from kafkalite.client.errors import raise_refusal
from kafkalite.config.layers import ConfigSource
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol._generated.messages.describe_acls import DescribeAclsRequest
from kafkalite.protocol._generated.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
)
from kafkalite.protocol._generated.messages.describe_configs import DescribeConfigsRequest
from kafkalite.protocol._generated.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.versions import Versions
from kafkalite.security.acls import ANY, Acl
from kafkalite.security.sasl.scram_credentials import SCRAM_BY_NUMBER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.client.client import KafkaClient

_API_VERSIONS: Final = Versions(0, 4)
_ACL_VERSIONS: Final = Versions(1, 3)
_QUOTA_VERSIONS: Final = Versions(0, 1)
_SCRAM_VERSIONS: Final = Versions(0, 0)
_CONFIG_VERSIONS: Final = Versions(1, 4)
_TOPIC_RESOURCE: Final = 2
_TOPICS_PER_REQUEST: Final = 200


class ClusterFeatures(NamedTuple):
    """The APIs of a broker, and the features of its cluster."""

    apis: frozenset[int]
    """The numbers of the APIs."""
    levels: Mapping[str, int]
    """The level of each supported feature, 0 for one that is disabled; empty with ZooKeeper."""


async def cluster_features(client: KafkaClient) -> ClusterFeatures:
    """Return the APIs and the feature levels; raises BrokerError."""
    request = ApiVersionsRequest(
        client_software_name="kafkalite", client_software_version=__version__
    )
    response = await client.ask_any(request, _API_VERSIONS)
    raise_refusal(response, "features of the cluster")
    finalized = {each.name: each.max_version_level for each in response.finalized_features}
    supported = {each.name for each in response.supported_features} if finalized else set()
    return ClusterFeatures(
        frozenset(each.api_key for each in response.api_keys),
        {name: finalized.get(name, 0) for name in sorted(supported | finalized.keys())},
    )


async def topic_settings(client: KafkaClient, topics: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the settings of topics that the topics themselves have; raises BrokerError."""
    found: dict[str, dict[str, str]] = {}
    row = DescribeConfigsRequest.DescribeConfigsResource
    for start in range(0, len(topics), _TOPICS_PER_REQUEST):
        resources = [
            row(resource_type=_TOPIC_RESOURCE, resource_name=name, configuration_keys=None)
            for name in topics[start : start + _TOPICS_PER_REQUEST]
        ]
        request = DescribeConfigsRequest(resources=resources)
        for result in (await client.ask_any(request, _CONFIG_VERSIONS)).results:
            raise_refusal(result, f"configurations of topic {result.resource_name!r}")
            found[result.resource_name] = {
                each.name: each.value or ""
                for each in sorted(result.configs, key=lambda each: str(each.name))
                if each.config_source == ConfigSource.DYNAMIC_TOPIC
            }
    return found


async def list_acls(client: KafkaClient, features: ClusterFeatures) -> list[Acl]:
    """Return all ACLs in a constant order; none without an authorizer. Raises BrokerError."""
    if DescribeAclsRequest.API_KEY not in features.apis:
        return []
    request = DescribeAclsRequest(
        resource_type_filter=ANY,
        resource_name_filter=None,
        pattern_type_filter=ANY,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
    response = await ask_controller(client, request, _ACL_VERSIONS)
    if response.error_code == ErrorCode.SECURITY_DISABLED:
        return []
    raise_refusal(response, "ACLs of the cluster")
    return sorted(
        Acl(
            resource.resource_type,
            resource.resource_name,
            resource.pattern_type,
            each.principal,
            each.host,
            each.operation,
            each.permission_type,
        )
        for resource in response.resources
        for each in resource.acls
    )


class QuotasOfEntity(NamedTuple):
    """The quotas of a user, a client id, both together, or an address."""

    entity: tuple[tuple[str, str | None], ...]
    """The names by the type of entity; None for all others."""
    quotas: tuple[tuple[str, float], ...]


async def list_quotas(client: KafkaClient, features: ClusterFeatures) -> list[QuotasOfEntity]:
    """Return all quotas in a constant order; raises BrokerError."""
    if DescribeClientQuotasRequest.API_KEY not in features.apis:
        return []
    request = DescribeClientQuotasRequest(components=[], strict=False)
    response = await ask_controller(client, request, _QUOTA_VERSIONS)
    raise_refusal(response, "quotas of the cluster")
    found = [
        QuotasOfEntity(
            tuple((part.entity_type, part.entity_name) for part in entry.entity),
            tuple(sorted((each.key, each.value) for each in entry.values)),
        )
        for entry in response.entries or ()
    ]
    return sorted(found, key=_order_of_quotas)


def _order_of_quotas(each: QuotasOfEntity) -> Any:  # noqa: ANN401 - texts only
    return sorted((kind, name is not None, name or "") for kind, name in each.entity)


async def list_scram_users(
    client: KafkaClient, features: ClusterFeatures
) -> dict[str, dict[str, int]]:
    """Return the iterations of each user by mechanism, in the order of the users' names.

    Raises BrokerError.
    """
    if DescribeUserScramCredentialsRequest.API_KEY not in features.apis:
        return {}
    request = DescribeUserScramCredentialsRequest(users=None)
    response = await ask_controller(client, request, _SCRAM_VERSIONS)
    raise_refusal(response, "users of the cluster")
    return {
        each.user: {
            SCRAM_BY_NUMBER[info.mechanism].name: info.iterations
            for info in sorted(each.credential_infos, key=lambda info: int(info.mechanism))
        }
        for each in sorted(response.results, key=lambda each: str(each.user))
        if not each.error_code
    }
