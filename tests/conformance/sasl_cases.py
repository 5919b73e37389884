"""Authentications, byte by byte, and the client that performs them."""

from __future__ import annotations

import socket
import ssl
from itertools import count
from typing import TYPE_CHECKING, Any

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kafkalite.protocol import codec
from kafkalite.protocol._generated.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
)
from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol._generated.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
)
from kafkalite.protocol._generated.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
)
from kafkalite.protocol._generated.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)
from kafkalite.protocol._generated.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
)
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol._generated.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
)
from kafkalite.protocol._generated.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkalite.protocol._generated.messages.sasl_handshake import SaslHandshakeRequest
from kafkalite.security.sasl.scram_credentials import (
    SCRAM_BY_NAME,
    SCRAM_SHA_256,
    salt_password,
)
from tests.unit.frames import framed, request_frame
from tests.unit.security.sasl.scram_client import ScramClient

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.protocol.message import Message

PASSWORD = "secret"  # noqa: S105 - of a broker that lives for a minute
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
JAAS = "org.apache.kafka.common.security"
SALT = b"a salt of the client"


def settings(listener: str) -> dict[str, str]:
    """Return the settings of a broker whose clients authenticate on this listener."""
    prefix = f"listener.name.{listener.lower()}"
    return {
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        f"{prefix}.plain.sasl.jaas.config": (
            f'{JAAS}.plain.PlainLoginModule required username="alice" password="{PASSWORD}" '
            f'user_alice="{PASSWORD}" user_bob="{PASSWORD}";'
        ),
        **{
            f"{prefix}.{mechanism.lower()}.sasl.jaas.config": (
                f"{JAAS}.scram.ScramLoginModule required;"
            )
            for mechanism in MECHANISMS[1:]
        },
        f"{prefix}.scram-sha-512.connections.max.reauth.ms": "600000",
        "sasl.server.max.receive.size": "2000",
    }


class RawClient:
    """A connection that records its responses."""

    def __init__(self, bootstrap: str, tls: ssl.SSLContext | None = None) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=10)
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname=host)
        self.responses: list[Any] = []

    def close(self) -> None:
        self._socket.close()

    def _receive(self, count: int) -> bytes | None:
        data = b""
        while len(data) < count:
            try:
                chunk = self._socket.recv(count - len(data))
            except (ConnectionResetError, ssl.SSLEOFError):
                return None
            if not chunk:
                return None
            data += chunk
        return data

    def exchange(self, data: bytes) -> bytes | None:
        """Send bytes; return the next frame, None if the connection was closed."""
        try:
            self._socket.sendall(data)
        except OSError:
            return None
        head = self._receive(4)
        return None if head is None else self._receive(int.from_bytes(head))

    def token(self, token: bytes) -> bytes | None:
        """Send a token without a header."""
        answer = self.exchange(framed(token))
        self.responses.append(answer)
        return answer

    def ask(self, request: Message, version: int) -> Any:  # noqa: ANN401 - any response
        """Send a request; return and record its response, None if the connection was closed."""
        answer = self.exchange(request_frame(request, version))
        if answer is None:
            self.responses.append(None)
            return None
        key = request.API_KEY  # type: ignore[attr-defined]
        start = 4 + (codec.is_flexible(key, version) and key != ApiVersionsRequest.API_KEY)
        response, end = codec.response_parser(key, version)(bytearray(answer), start, len(answer))
        assert end == len(answer)
        self.responses.append(response)
        return response

    def handshake(self, mechanism: str, version: int = 1) -> Any:  # noqa: ANN401 - any response
        response = self.ask(SaslHandshakeRequest(mechanism=mechanism), version)
        if response is not None:
            response.mechanisms.sort()  # Kafka sends them in the order of a hash table
        return response

    def authenticate(self, token: bytes, version: int = 2) -> Any:  # noqa: ANN401 - any response
        return self.ask(SaslAuthenticateRequest(auth_bytes=token), version)

    def scram(
        self, mechanism: str, name: str, password: str, version: int = 2, nonce_prefix: str = ""
    ) -> None:
        """Authenticate by SCRAM; nonces and salts are not recorded."""
        client = ScramClient(SCRAM_BY_NAME[mechanism], name, password)
        client.nonce_prefix = nonce_prefix
        self.handshake(mechanism)
        first = self.authenticate(client.first(), version)
        final = self.authenticate(client.final(bytes(first.auth_bytes)), version)
        first.auth_bytes = b"first"
        if final.auth_bytes:
            final.auth_bytes = b"final"

    def log_in(self, name: str = "alice") -> None:
        """Authenticate by PLAIN."""
        self.handshake("PLAIN")
        self.authenticate(f"\0{name}\0{PASSWORD}".encode())


VERSIONS = ApiVersionsRequest(client_software_name="test", client_software_version="1")
CLUSTER = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="t")])


def plain(token: bytes, version: int) -> Callable[[RawClient], None]:
    def run(client: RawClient) -> None:
        client.handshake("PLAIN")
        client.authenticate(token, version)
        client.authenticate(token, version)

    return run


def bare_plain(token: bytes) -> Callable[[RawClient], None]:
    def run(client: RawClient) -> None:
        client.handshake("PLAIN", 0)
        client.token(token)
        client.handshake("PLAIN", 0)

    return run


def scram(mechanism: str, name: str, password: str, version: int) -> Callable[[RawClient], None]:
    def run(client: RawClient) -> None:
        client.scram(mechanism, name, password, version)
        client.authenticate(b"", version)

    return run


def repeated_nonce(client: RawClient) -> None:
    """Authenticate as librdkafka before 2.6.1 does."""
    client.scram("SCRAM-SHA-256", "alice", PASSWORD, nonce_prefix="clientnonce")


def first_scram_message(message: bytes) -> Callable[[RawClient], None]:
    def run(client: RawClient) -> None:
        client.handshake("SCRAM-SHA-256")
        client.authenticate(message)

    return run


def final_scram_message(change: Callable[[bytes], bytes]) -> Callable[[RawClient], None]:
    def run(client: RawClient) -> None:
        scram_client = ScramClient(SCRAM_SHA_256, "alice", PASSWORD)
        client.handshake("SCRAM-SHA-256")
        first = client.authenticate(scram_client.first())
        final = scram_client.final(bytes(first.auth_bytes))
        first.auth_bytes = b"first"
        answer = client.authenticate(change(final))
        if answer is not None and answer.auth_bytes:
            answer.auth_bytes = b"final"

    return run


def before_the_handshake(request: Message, version: int) -> Callable[[RawClient], None]:
    def run(client: RawClient) -> None:
        client.ask(request, version)

    return run


def during_the_exchange(request: Message, version: int) -> Callable[[RawClient], None]:
    def run(client: RawClient) -> None:
        client.handshake("PLAIN")
        response = client.ask(request, version)
        if response is not None and hasattr(response, "mechanisms"):
            response.mechanisms.sort()

    return run


def afterwards(*requests: tuple[Message, int]) -> Callable[[RawClient], None]:
    def run(client: RawClient) -> None:
        client.log_in()
        for request, version in requests:
            client.ask(request, version)

    return run


def mechanism(name: str, version: int) -> Callable[[RawClient], None]:
    def run(client: RawClient) -> None:
        client.handshake(name, version)
        client.handshake(name, version)

    return run


def raw(data: bytes) -> Callable[[RawClient], None]:
    def run(client: RawClient) -> None:
        client.responses.append(client.exchange(data))

    return run


def versions_twice(client: RawClient) -> None:
    for _ in range(2):
        response = client.ask(VERSIONS, 3)
        if response is not None:
            client.responses[-1] = response.error_code


def invalid_versions(client: RawClient) -> None:
    response = client.ask(ApiVersionsRequest(client_software_name="?"), 3)
    client.responses[-1] = response.error_code
    client.log_in()


def again(first: str, then: str, name: str = "alice") -> Callable[[RawClient], None]:
    """Authenticate, then authenticate again."""

    def run(client: RawClient) -> None:
        client.scram(first, "alice", PASSWORD)
        if then == "PLAIN":
            client.log_in(name)
        else:
            client.scram(then, name, PASSWORD)
        client.ask(VERSIONS, 0)
        client.responses.pop()

    return run


UPSERTION = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
DELETION = AlterUserScramCredentialsRequest.ScramCredentialDeletion
USER_NAME = DescribeUserScramCredentialsRequest.UserName


def upsertion(name: str, number: int = 1, iterations: int = 4096) -> UPSERTION:
    salted = salt_password(SCRAM_SHA_256, PASSWORD, SALT, 4096)
    return UPSERTION(
        name=name, mechanism=number, iterations=iterations, salt=SALT, salted_password=salted
    )


_marker_numbers = count()


def wait_for_alterations(client: RawClient) -> None:
    """Wait until the broker describes what was altered before: it learns changes in their order."""
    marker = f"marker-{next(_marker_numbers)}"
    client.ask(AlterUserScramCredentialsRequest(upsertions=[upsertion(marker)]), 0)
    client.responses.pop()
    is_known = False
    while not is_known:
        users = [USER_NAME(name=marker)]
        described = client.ask(DescribeUserScramCredentialsRequest(users=users), 0)
        client.responses.pop()
        is_known = not described.results[0].error_code


def credentials(client: RawClient) -> None:
    """Alter and describe credentials; the results have the order of a hash table."""
    client.log_in()
    alterations: list[tuple[list[DELETION], list[UPSERTION]]] = [
        ([], [upsertion("new")]),
        ([], [upsertion("new", 2, 16384), upsertion("few", 1, 4095), upsertion("many", 1, 16385)]),
        ([], [upsertion(""), upsertion("unknown", 0), upsertion("unknown2", 3)]),
        ([DELETION(name="absent", mechanism=1), DELETION(name="new", mechanism=9)], []),
        ([DELETION(name="new", mechanism=1)], [upsertion("new", 2)]),
        ([DELETION(name="new", mechanism=1)] * 2, [upsertion("other")]),
        ([DELETION(name="new", mechanism=1)], []),
    ]
    for deletions, upsertions in alterations:
        response = client.ask(
            AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions), 0
        )
        response.results.sort(key=lambda each: each.user)
        wait_for_alterations(client)
        for names in (["new"], ["new", "absent", "other", "other"]):
            users = [USER_NAME(name=name) for name in names]
            described = client.ask(DescribeUserScramCredentialsRequest(users=users), 0)
            described.results.sort(key=lambda each: each.user)
            for each in described.results:
                each.credential_infos.sort(key=lambda info: info.mechanism)


def disabled_tokens(client: RawClient) -> None:
    """Send the requests of delegation tokens to a broker without a secret key."""
    client.log_in()
    for version in (1, 2, 3):
        client.ask(CreateDelegationTokenRequest(max_lifetime_ms=-1), version)
        client.ask(DescribeDelegationTokenRequest(owners=None), version)
    for version in (1, 2):
        client.ask(RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=-1), version)
        client.ask(ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=-1), version)


CASES: dict[str, Callable[[RawClient], None]] = {
    **{
        f"plain-{number}-v{version}": plain(token, version)
        for version in range(3)
        for number, token in enumerate(
            (
                b"\0alice\0secret",
                b"alice\0alice\0secret",
                b"bob\0alice\0secret",
                b"\0alice\0wrong",
                b"\0carol\0secret",
                b"\0\0secret",
                b"\0alice\0",
                b"",
                b"alice",
                b"\0\0\0\0",
                b"\xff\0\xff\0\xff",
                b"x" * 2100,
            )
        )
    },
    **{
        f"bare-plain-{number}": bare_plain(token)
        for number, token in enumerate((b"\0alice\0secret", b"\0alice\0wrong", b"", b"x" * 2100))
    },
    **{
        f"{name}-{user}-{password}-v{version}": scram(name, user, password, version)
        for name in MECHANISMS[1:]
        for user, password in (("alice", PASSWORD), ("alice", "wrong"))
        for version in range(3)
    },
    **{
        f"first-{number}": first_scram_message(message)
        for number, message in enumerate(
            (
                b"",
                b"y,,n=alice,r=x",
                b"p=tls-unique,,n=alice,r=x",
                b"n,,n=,r=x",
                b"n,,n=alice",
                b"n,,n=al=ice,r=x",
                b"n,,n=alice,r=a b",
                b"n,a=bob,n=alice,r=x",
            )
        )
    },
    "final": final_scram_message(lambda final: final),
    "final-nonce": final_scram_message(lambda final: final.replace(b"r=", b"r=x", 1)),
    "final-channel": final_scram_message(lambda final: final.replace(b"biws", b"eSws", 1)),
    "final-empty": final_scram_message(lambda _: b""),
    **{
        f"before-{request.__class__.__name__}": before_the_handshake(request, version)
        for request, version in ((CLUSTER, 9), (SaslAuthenticateRequest(), 2))
    },
    **{
        f"during-{request.__class__.__name__}-v{version}": during_the_exchange(request, version)
        for request, version in (
            *((CLUSTER, version) for version in range(14)),
            (SaslHandshakeRequest(mechanism="PLAIN"), 0),
            (SaslHandshakeRequest(mechanism="PLAIN"), 1),
            (DescribeUserScramCredentialsRequest(users=[USER_NAME(name="alice")]), 0),
            (AlterUserScramCredentialsRequest(upsertions=[upsertion("alice")]), 0),
        )
    },
    "afterwards": afterwards(
        (SaslHandshakeRequest(mechanism="PLAIN"), 0),
        (SaslHandshakeRequest(mechanism="PLAIN"), 1),
        (SaslAuthenticateRequest(auth_bytes=b"x"), 0),
        (SaslAuthenticateRequest(auth_bytes=b"x"), 2),
    ),
    **{
        f"mechanism-{name}-v{version}": mechanism(name, version)
        for name in ("GSSAPI", "OAUTHBEARER", "plain", "", "SCRAM-SHA-1")
        for version in range(2)
    },
    **{
        f"raw-{number}": raw(data)
        for number, data in enumerate(
            (
                framed(b""),
                framed(b"\x60\x82\x01\x02 a token of Kerberos"),
                framed(b"\x7f\xff\0\0" + bytes(30)),
                b"\x7f\xff\xff\xff",
                b"\xff\xff\xff\xff",
                b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
                b"GET / HTTP/1.1\r\n\r\n",
            )
        )
    },
    "versions-twice": versions_twice,
    "invalid-versions": invalid_versions,
    "again": again("SCRAM-SHA-512", "SCRAM-SHA-512"),
    "again-mechanism": again("SCRAM-SHA-512", "PLAIN"),
    "again-user": again("SCRAM-SHA-512", "SCRAM-SHA-512", "bob"),
    "credentials": credentials,
    "scram-repeated-nonce": repeated_nonce,
    "disabled-tokens": disabled_tokens,
}


def run(
    bootstrap: str, case: Callable[[RawClient], None], tls: ssl.SSLContext | None = None
) -> list[Any]:
    """Return the responses of a case; `tls` is the context of a client that connects by TLS."""
    client = RawClient(bootstrap, tls)
    try:
        case(client)
    except AttributeError:
        assert client.responses[-1] is None, "a case goes on after its connection was closed"
    finally:
        client.close()
    return client.responses


def create_users(bootstrap: str, *, is_open: bool = False) -> None:
    """Create the SCRAM credentials of both users; `is_open`: by a listener without SASL."""
    login = {
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": PASSWORD,
    }
    admin = AdminClient({"bootstrap.servers": bootstrap, **({} if is_open else login)})
    for number in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        for user in ("alice", "bob"):
            row = UserScramCredentialUpsertion(
                user, ScramCredentialInfo(number, 4096), PASSWORD.encode(), SALT
            )
            for future in admin.alter_user_scram_credentials([row]).values():
                future.result(60)
