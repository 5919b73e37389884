"""Security records on disk are Kafka's: each broker uses those that the other one has written.

The records of SCRAM credentials, delegation tokens, ACLs and quotas are copied from the metadata
log of one broker to that of the other one.
"""

from __future__ import annotations

import time
from base64 import b64encode
from typing import TYPE_CHECKING, Final

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kafkalite.config.log_config import LogConfig
from kafkalite.ports.files import OsFiles
from kafkalite.protocol._generated.messages.alter_client_quotas import AlterClientQuotasRequest
from kafkalite.protocol._generated.messages.create_acls import CreateAclsRequest
from kafkalite.protocol._generated.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
)
from kafkalite.protocol._generated.messages.describe_acls import DescribeAclsRequest
from kafkalite.protocol._generated.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
)
from kafkalite.protocol._generated.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
)
from kafkalite.protocol._generated.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)
from kafkalite.protocol._generated.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkalite.protocol._generated.messages.sasl_handshake import SaslHandshakeRequest
from kafkalite.protocol._generated.records.access_control_entry import AccessControlEntryRecord
from kafkalite.protocol._generated.records.client_quota import ClientQuotaRecord
from kafkalite.protocol._generated.records.delegation_token import DelegationTokenRecord
from kafkalite.protocol._generated.records.user_scram_credential import UserScramCredentialRecord
from kafkalite.protocol.acl_operations import Operation, Resource
from kafkalite.protocol.codec import decode_metadata_record
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.security.sasl.scram_credentials import SCRAM_BY_NAME
from kafkalite.storage.batch import BatchView, build_batch
from kafkalite.storage.log import Log
from kafkalite.storage.record_format import NewRecord
from kafkalite.testing import Broker
from tests.conformance.raw import RawClient
from tests.conformance.sasl_kafka import SETTINGS, USERS, kafka_with_sasl
from tests.oracle.requirements import required
from tests.oracle.target import free_port
from tests.unit.security.sasl.scram_client import ScramClient

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.oracle, pytest.mark.endurance, pytest.mark.timeout(300)]

PASSWORD: Final = "dave's secret"  # noqa: S105 - of a test
SECURITY_RECORDS: Final = (
    UserScramCredentialRecord, DelegationTokenRecord, AccessControlEntryRecord, ClientQuotaRecord,
)  # fmt: skip
TIMEOUT_S: Final = 10.0
METADATA_LOG: Final = "__cluster_metadata-0"
SCRAM: Final = {
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
}


def log_in(port: int, mechanism: str, name: str, password: str, extension: str = "") -> RawClient:
    """Return a connection that has authenticated by SCRAM."""
    client = RawClient(port)
    scram = ScramClient(SCRAM_BY_NAME[mechanism], name, password)
    scram.bare += extension
    client.call(SaslHandshakeRequest(mechanism=mechanism), 1)
    first = client.call(SaslAuthenticateRequest(auth_bytes=scram.first()), 2)
    final = scram.final(bytes(first.auth_bytes))
    answer = client.call(SaslAuthenticateRequest(auth_bytes=final), 2)
    assert not answer.error_code, answer.error_message
    return client


def log_in_by_plain(port: int, name: str) -> RawClient:
    client = RawClient(port)
    client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    token = f"\0{name}\0{USERS[name]}".encode()
    assert not client.call(SaslAuthenticateRequest(auth_bytes=token), 2).error_code
    return client


def write_security(port: int) -> bytes:
    """Create a user, a token, an ACL and a quota; return the HMAC of the token."""
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": "admin",
        "sasl.password": USERS["admin"],
    }
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", **login})
    for mechanism in SCRAM.values():
        info = ScramCredentialInfo(mechanism, 5000)
        upsertion = UserScramCredentialUpsertion("dave", info, PASSWORD.encode())
        admin.alter_user_scram_credentials([upsertion])["dave"].result(30)
    client = log_in_by_plain(port, "admin")
    creation = CreateAclsRequest.AclCreation(
        resource_type=Resource.TOPIC, resource_name="orders-", resource_pattern_type=4,
        principal="User:dave", host="10.0.0.1", operation=Operation.WRITE, permission_type=3,
    )  # fmt: skip
    assert not client.call(CreateAclsRequest(creations=[creation]), 3).results[0].error_code
    quotas = AlterClientQuotasRequest
    entry = quotas.EntryData(
        entity=[
            quotas.EntityData(entity_type="user", entity_name="dave"),
            quotas.EntityData(entity_type="client-id", entity_name=None),
        ],
        ops=[quotas.OpData(key="producer_byte_rate", value=12345, remove=False)],
    )
    assert not client.call(quotas(entries=[entry], validate_only=False), 1).entries[0].error_code
    renewer = CreateDelegationTokenRequest.CreatableRenewers
    token = client.call(
        CreateDelegationTokenRequest(
            owner_principal_type="User",
            owner_principal_name="dave",
            renewers=[renewer(principal_type="User", principal_name="bob")],
            max_lifetime_ms=-1,
        ),
        3,
    )
    assert not token.error_code
    # A real Kafka knows the token a moment later.
    deadline = time.monotonic() + TIMEOUT_S
    while not client.call(DescribeDelegationTokenRequest(owners=None), 3).tokens:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    client.close()
    return bytes(token.hmac)


def descriptions(port: int) -> list[str]:
    """Return what the admin sees of users, tokens, ACLs and quotas, without users of the start."""
    client = log_in_by_plain(port, "admin")
    user = DescribeUserScramCredentialsRequest.UserName(name="dave")
    acls = DescribeAclsRequest(
        resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1
    )
    component = DescribeClientQuotasRequest.ComponentData
    quotas = DescribeClientQuotasRequest(
        components=[component(entity_type="user", match_type=0, match="dave")], strict=False
    )
    (credentials,) = client.call(DescribeUserScramCredentialsRequest(users=[user]), 0).results
    entries = client.call(quotas, 1).entries
    # These are unordered in Kafka.
    credentials.credential_infos.sort(key=lambda each: each.mechanism)
    for entry in entries:
        entry.entity.sort(key=lambda each: each.entity_type)
    tokens = client.call(DescribeDelegationTokenRequest(owners=None), 3).tokens
    answers = [credentials, tokens, client.call(acls, 3).resources, entries]
    client.close()
    return [repr(answer) for answer in answers]


def security_values(log: Log) -> Iterator[bytes]:
    """Yield the security records of a metadata log."""
    for view in log.batches():
        if view.is_control:
            continue
        for record in view.records():
            try:
                decoded = decode_metadata_record(bytes(record.value or b""))
            except ProtocolViolation:
                continue
            if isinstance(decoded, SECURITY_RECORDS) and getattr(decoded, "name", "dave") == "dave":
                yield bytes(record.value or b"")


def copy_security(source: Path, target: Path) -> None:
    """Append the security records of a stopped broker to the metadata log of another one."""
    files, config = OsFiles(), LogConfig()
    read = Log.open(files, str(source / METADATA_LOG), config, now_ms=0)
    values = list(security_values(read))
    read.close()
    assert len(values) == len(SCRAM) + 3
    log = Log.open(files, str(target / METADATA_LOG), config, now_ms=0)
    now_ms = max(view.max_timestamp for view in log.batches())
    batch = build_batch([NewRecord(None, value, now_ms) for value in values])
    log.append([BatchView(batch)], leader_epoch=log.epochs.entries[-1][0], now_ms=now_ms)
    log.close()


def check_logins(port: int, hmac: bytes) -> None:
    """Log in with the password and with the token."""
    for mechanism in SCRAM:
        log_in(port, mechanism, "dave", PASSWORD).close()
    admin = log_in_by_plain(port, "admin")
    (token,) = admin.call(DescribeDelegationTokenRequest(owners=None), 3).tokens
    admin.close()
    assert bytes(token.hmac) == hmac
    password = b64encode(hmac).decode()
    log_in(port, "SCRAM-SHA-256", token.token_id, password, ",tokenauth=true").close()


def kafkalite(directory: Path) -> Broker:
    return Broker(
        security="SASL_PLAINTEXT", users=USERS, config=SETTINGS, data_directory=directory,
        log_level="error",
    )  # fmt: skip


def port_of(broker: Broker) -> int:
    return int(broker.bootstrap_servers.rpartition(":")[2])


def test_kafkalite_uses_the_security_records_of_kafka(tmp_path: Path) -> None:
    with required():
        kafka = kafka_with_sasl(tmp_path / "kafka", port := free_port())
        kafka.start()
    try:
        hmac = write_security(port)
        expected = descriptions(port)
    finally:
        kafka.stop()
    with kafkalite(tmp_path / "kafkalite"):
        pass
    copy_security(kafka.data, tmp_path / "kafkalite")
    with kafkalite(tmp_path / "kafkalite") as broker:
        assert descriptions(port_of(broker)) == expected
        check_logins(port_of(broker), hmac)


def test_kafka_uses_the_security_records_of_kafkalite(tmp_path: Path) -> None:
    with required():
        kafka = kafka_with_sasl(tmp_path / "kafka", port := free_port())
        kafka.start()
    kafka.stop()
    with kafkalite(tmp_path / "kafkalite") as broker:
        hmac = write_security(port_of(broker))
        expected = descriptions(port_of(broker))
    copy_security(tmp_path / "kafkalite", kafka.data)
    kafka.start()
    try:
        assert descriptions(port) == expected
        check_logins(port, hmac)
    finally:
        kafka.kill()
