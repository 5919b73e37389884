"""SASL SCRAM: the example of the RFC, refused messages, and unknown users."""

from __future__ import annotations

from base64 import b64decode

import pytest

from kafkalite.security.sasl.mechanism import SaslAuthenticationError, SaslError
from kafkalite.security.sasl.scram import ScramServer
from kafkalite.security.sasl.scram_credentials import (
    SCRAM_MECHANISMS,
    SCRAM_SHA_256,
    ScramCredential,
    ScramMechanism,
    credential_of_password,
)
from tests.unit.security.sasl.scram_client import ScramClient

SALT = b"0123456789abcdefghijklmnop"
TOKEN_EXPIRY_MS = 99


def server_for(
    mechanism: ScramMechanism = SCRAM_SHA_256,
    name: str = "alice",
    *,
    owned: str | None = None,
    iterations: int = 4096,
    nonce: str = "servernonce",
    accepts_suffix: bool = False,
) -> ScramServer:
    credential = credential_of_password(mechanism, "secret", SALT, iterations)

    def find(requested: str, is_token: bool) -> tuple[ScramCredential, str, int | None] | None:  # noqa: FBT001 - a callback
        if is_token:
            return (credential, name, TOKEN_EXPIRY_MS) if requested == owned else None
        return (credential, name, None) if requested == name else None

    return ScramServer(mechanism, find, nonce, b"key", accepts_suffix=accepts_suffix)


def exchange(server: ScramServer, client: ScramClient) -> bytes:
    return server.evaluate(client.final(server.evaluate(client.first())))


def test_the_messages_are_those_of_the_example_of_rfc_7677() -> None:
    salt = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    credential = credential_of_password(SCRAM_SHA_256, "pencil", salt)
    server = ScramServer(
        SCRAM_SHA_256,
        lambda name, _: (credential, name, None),
        "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
        b"key",
    )
    first = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    nonce = b"rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    assert server.evaluate(first) == b"r=" + nonce + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert not server.is_complete
    proof = b"dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    answer = server.evaluate(b"c=biws,r=" + nonce + b",p=" + proof)
    assert answer == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert (server.is_complete, server.user, server.expires_at_ms) == (True, "user", None)


@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS)
def test_both_sides_prove_that_they_know_the_password(mechanism: ScramMechanism) -> None:
    server = server_for(mechanism)
    client = ScramClient(mechanism, "alice", "secret")
    assert b64decode(exchange(server, client)[2:]) == client.server_signature
    assert server.is_complete


@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS)
def test_a_wrong_password_is_refused(mechanism: ScramMechanism) -> None:
    server = server_for(mechanism)
    with pytest.raises(SaslError) as refusal:
        exchange(server, ScramClient(mechanism, "alice", "wrong"))
    assert not isinstance(refusal.value, SaslAuthenticationError)
    assert (server.is_complete, server.user) == (False, "")


def test_an_unknown_user_is_refused_as_a_known_one_with_a_wrong_password() -> None:
    results, reasons = [], []
    for name in ("alice", "bob"):
        server = server_for()
        client = ScramClient(SCRAM_SHA_256, name, "wrong")
        first = server.evaluate(client.first())
        with pytest.raises(SaslError) as refusal:
            server.evaluate(client.final(first))
        attributes = dict(pair.split("=", 1) for pair in first.decode().split(","))
        salt_bytes = len(b64decode(attributes["s"]))
        results.append((attributes["i"], salt_bytes, type(refusal.value), server.is_complete))
        reasons.append(str(refusal.value))
    assert results[0] == results[1]
    prefix = "invalid SCRAM credentials: "
    assert reasons == [  # for the log only
        f"{prefix}wrong password of user 'alice'",
        f"{prefix}the user does not exist, or has no password for SCRAM-SHA-256",
    ]


def test_a_name_may_have_commas_and_equals_signs() -> None:
    server = server_for(name="a,b=c=2C")
    exchange(server, ScramClient(SCRAM_SHA_256, "a=2Cb=3Dc=3D2C", "secret"))
    assert server.user == "a,b=c=2C"


def test_an_authorization_id_must_be_the_name() -> None:
    same = ScramClient(SCRAM_SHA_256, "alice", "secret")
    same.header = "n,a=alice,"
    server = server_for()
    exchange(server, same)
    assert server.is_complete
    for name in ("alice", "bob"):
        other = ScramClient(SCRAM_SHA_256, name, "secret")
        other.header = "n,a=carol,"
        with pytest.raises(SaslAuthenticationError, match="an authorization id that is different"):
            server_for().evaluate(other.first())


def test_extensions_are_ignored() -> None:
    client = ScramClient(SCRAM_SHA_256, "alice", "secret")
    client.bare += ",ext=1,other=x"
    server = server_for()
    exchange(server, client)
    assert (server.is_complete, server.is_token_authenticated) == (True, False)


def test_a_delegation_token_authenticates_its_owner() -> None:
    server = server_for(owned="tokenid")
    client = ScramClient(SCRAM_SHA_256, "tokenid", "secret")
    client.bare += ",tokenauth=true"
    exchange(server, client)
    assert (server.user, server.expires_at_ms) == ("alice", TOKEN_EXPIRY_MS)
    assert server.is_token_authenticated


def test_a_user_is_no_delegation_token() -> None:
    client = ScramClient(SCRAM_SHA_256, "alice", "secret")
    client.bare += ",tokenauth=true"
    with pytest.raises(SaslError, match="the delegation token does not exist, or has expired"):
        exchange(server_for(), client)


def test_a_wrong_hmac_of_a_delegation_token_is_refused() -> None:
    client = ScramClient(SCRAM_SHA_256, "tokenid", "wrong")
    client.bare += ",tokenauth=true"
    with pytest.raises(SaslError, match="wrong HMAC of the delegation token"):
        exchange(server_for(owned="tokenid"), client)


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n=alice,r=x",
        b"y,,n=alice,r=x",
        b"p=tls-unique,,n=alice,r=x",
        b"n,,n=,r=x",
        b"n,,n=alice,r=",
        b"n,,n=alice",
        b"n,,n=al=ice,r=x",
        b"n,,n=al=2cice,r=x",
        b"n,,n=al,ice,r=x",
        b"n,,n=al\0ice,r=x",
        "n,,n=björn,r=x".encode(),
        b"n,,n=alice,r=a b",
        b"n,,n=alice,r=x,",
        b"n,,n=alice,r=x,1=2",
        b"\xff\xff",
        b"n,,n=alice,r=" + b"x" * 8192,
    ],
)
def test_an_invalid_first_message_is_refused(first: bytes) -> None:
    server = server_for()
    with pytest.raises(SaslError):
        server.evaluate(first)
    with pytest.raises(SaslError, match="after the end"):
        server.evaluate(ScramClient(SCRAM_SHA_256, "alice", "secret").first())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"r=clientnonceservernonce", b"r=clientnonceservernonc"),
        (b"r=clientnonceservernonce", b"r=clientnonce"),
        (b"r=clientnonce", b"r=xclientnonce"),
        (b"c=biws", b"c=eSws"),
        (b"c=biws", b"c=!"),
        (b"c=biws,", b""),
        (b",p=", b",p=AAAA"),
        (b",p=", b",x=1,p=A"),
        (b",p=", b",q="),
    ],
)
def test_a_changed_final_message_is_refused(old: bytes, new: bytes) -> None:
    server = server_for()
    client = ScramClient(SCRAM_SHA_256, "alice", "secret")
    final = client.final(server.evaluate(client.first()))
    assert old in final
    with pytest.raises(SaslError):
        server.evaluate(final.replace(old, new))
    assert not server.is_complete
    with pytest.raises(SaslError, match="after the end"):
        server.evaluate(final)


def test_long_messages_are_refused_before_they_are_parsed() -> None:
    client = ScramClient(SCRAM_SHA_256, "alice", "secret")
    client.bare += ",a=" + "b" * 8192
    with pytest.raises(SaslError, match=r"a SCRAM message of 82\d\d bytes"):
        server_for().evaluate(client.first())
    server = server_for()
    client = ScramClient(SCRAM_SHA_256, "alice", "secret")
    final = client.final(server.evaluate(client.first()))
    with pytest.raises(SaslError, match=r"a SCRAM message of 8\d\d\d bytes"):
        server.evaluate(final.replace(b",p=", b",a=" + b"b" * 8192 + b",p="))


@pytest.mark.parametrize("proof", [b"", b"AAAA", b"A" * 64, b"A" * 400])
def test_a_proof_of_another_length_is_refused(proof: bytes) -> None:
    server = server_for()
    server.evaluate(ScramClient(SCRAM_SHA_256, "alice", "secret").first())
    with pytest.raises(SaslError):
        server.evaluate(b"c=biws,r=clientnonceservernonce,p=" + proof)


def test_a_nonce_with_a_prefix_is_refused() -> None:
    server = server_for()
    client = ScramClient(SCRAM_SHA_256, "alice", "secret")
    client.nonce_prefix = "clientnonce"
    with pytest.raises(SaslError, match=r"nonce in .* librdkafka before 2\.6\.1"):
        exchange(server, client)
    assert not server.is_complete


def test_releases_before_4_accept_a_nonce_with_a_prefix() -> None:
    server = server_for(accepts_suffix=True)
    client = ScramClient(SCRAM_SHA_256, "alice", "secret")
    client.nonce_prefix = "clientnonce"
    exchange(server, client)
    assert server.is_complete
    another = server_for(accepts_suffix=True)
    answer = another.evaluate(client.first())
    with pytest.raises(SaslError, match=r"nonce in the SCRAM client final message$"):
        another.evaluate(client.final(answer.replace(b"servernonce", b"servernoncex", 1)))


def test_a_recorded_exchange_is_refused_with_another_nonce() -> None:
    client = ScramClient(SCRAM_SHA_256, "alice", "secret")
    final = client.final(server_for().evaluate(client.first()))
    server = server_for(nonce="anothernonce")
    server.evaluate(client.first())
    with pytest.raises(SaslError, match="nonce"):
        server.evaluate(final)


def test_a_credential_with_few_iterations_is_not_used() -> None:
    with pytest.raises(SaslError, match="less than 4096 iterations"):
        server_for(iterations=4095).evaluate(ScramClient(SCRAM_SHA_256, "alice", "secret").first())


def test_no_message_is_accepted_after_the_last_one() -> None:
    server = server_for()
    client = ScramClient(SCRAM_SHA_256, "alice", "secret")
    exchange(server, client)
    with pytest.raises(SaslError):
        server.evaluate(client.first())
