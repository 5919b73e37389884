"""Features, settings, ACLs, users and quotas of a cluster."""

from __future__ import annotations

from kafkalite.client.bootstrap import bootstrap_addresses
from kafkalite.client.client import KafkaClient
from kafkalite.client.cluster_contents import (
    ClusterFeatures,
    QuotasOfEntity,
    cluster_features,
    list_acls,
    list_quotas,
    list_scram_users,
    topic_settings,
)
from kafkalite.security.acls import Acl
from kafkalite.testing import Broker

CONFIG = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
ACL = {"operation": "READ", "resource_type": "TOPIC", "resource_name": "a"}
STATE = {
    "topics": {"a": {"config": {"retention.ms": 5}}, "b": {}},
    "acls": [{"principal": "User:b", **ACL}, {"principal": "User:a", **ACL}],
    "users": {"u": {"mechanisms": {"SCRAM-SHA-512": 5000}}, "a": {}},
    "quotas": [
        {"user": "u", "client_id": "<default>", "quotas": {"producer_byte_rate": 1}},
        {"ip": "127.0.0.9", "quotas": {"connection_creation_rate": 2}},
    ],
    "features": {"share.version": 0},
}


async def test_everything_is_listed_in_a_constant_order() -> None:
    with Broker(state=STATE, storage="memory", config=CONFIG) as broker:
        async with KafkaClient(bootstrap_addresses(broker.bootstrap_servers)) as client:
            features = await cluster_features(client)
            assert features.levels["share.version"] == 0
            assert features.levels["transaction.version"] == 2
            assert await topic_settings(client, ["a", "b"]) == {"a": {"retention.ms": "5"}, "b": {}}
            assert await list_acls(client, features) == [
                Acl(2, "a", 3, f"User:{name}", "*", 3, 3) for name in ("a", "b")
            ]
            assert await list_scram_users(client, features) == {
                "a": {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 4096},
                "u": {"SCRAM-SHA-512": 5000},
            }
            found = await list_quotas(client, features)
            assert [(dict(each.entity), each.quotas) for each in found] == [
                ({"user": "u", "client-id": None}, (("producer_byte_rate", 1.0),)),
                ({"ip": "127.0.0.9"}, (("connection_creation_rate", 2.0),)),
            ]
            assert isinstance(found[0], QuotasOfEntity)


async def test_a_cluster_without_an_authorizer_or_an_api_has_none() -> None:
    with Broker(storage="memory") as broker:
        async with KafkaClient(bootstrap_addresses(broker.bootstrap_servers)) as client:
            assert await list_acls(client, await cluster_features(client)) == []
            none = ClusterFeatures(frozenset(), {})
            assert await list_acls(client, none) == []
            assert await list_quotas(client, none) == []
            assert await list_scram_users(client, none) == {}
