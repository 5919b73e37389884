"""SASL logins: the client's tokens for each mechanism, and its checks of the broker."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from base64 import b64decode, b64encode
from typing import Any

import pytest

from kafkalite.client import access
from kafkalite.client.access import Login, LoginError, log_in, plain, scram
from kafkalite.protocol._generated.messages.sasl_authenticate import SaslAuthenticateResponse
from kafkalite.protocol._generated.messages.sasl_handshake import SaslHandshakeResponse

PENCIL = Login("SCRAM-SHA-256", "user", "pencil")
NONCE = "rOprNGfwEbeRWgbNEkqO"


def test_scram_sends_the_messages_of_the_rfc_example() -> None:
    """The exchange of RFC 7677, section 3."""
    steps = scram("sha256", PENCIL, NONCE)
    assert next(steps) == f"n,,n=user,r={NONCE}".encode()
    whole = f"{NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    first = f"r={whole},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert steps.send(first.encode()) == (
        f"c=biws,r={whole},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
    )
    with pytest.raises(StopIteration):
        steps.send(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ([b"no"], "invalid SCRAM message"),
        ([b"r=other,s=AA==,i=1"], "invalid SCRAM nonce or iteration count"),
        ([f"r={NONCE}x,s=AA==,i=99999999".encode()], "invalid SCRAM nonce or iteration count"),
        ([f"r={NONCE}x,s=AA==,i=1".encode(), b"v=AAAA"], "does not prove"),
        ([f"r={NONCE}x,s=AA==,i=1".encode(), b"e=other-error"], "does not prove"),
    ],
)
def test_a_broker_that_cannot_prove_its_identity_is_rejected(
    answers: list[bytes], message: str
) -> None:
    steps = scram("sha512", PENCIL, NONCE)
    next(steps)
    for answer in answers[:-1]:
        steps.send(answer)
    with pytest.raises(LoginError, match=message):
        steps.send(answers[-1])


def test_separators_in_user_names_are_escaped() -> None:
    steps = scram("sha256", Login("SCRAM-SHA-256", "a,b=c", "p"), NONCE)
    assert next(steps).startswith(b"n,,n=a=2Cb=3Dc,r=")


def test_plain_sends_the_password_and_it_is_hidden_elsewhere() -> None:
    login = Login("PLAIN", "user", "pencil")
    assert next(plain(login, NONCE)) == b"\0user\0pencil"
    assert "pencil" not in repr(login)


class SaslServer:
    """The broker's side, for one user."""

    def __init__(self, mechanisms: list[str], password: str = "pencil") -> None:  # noqa: S107 - made up
        self._mechanisms = mechanisms
        self._password = password.encode()
        self._messages: list[str] = []
        self.has_let_in = False

    async def call(self, request: Any, version: int) -> Any:  # noqa: ANN401 - two classes
        assert version == 1
        await asyncio.sleep(0)
        if hasattr(request, "mechanism"):
            is_known = request.mechanism in self._mechanisms
            return SaslHandshakeResponse(
                error_code=0 if is_known else 33, mechanisms=self._mechanisms
            )
        token = request.auth_bytes.decode()
        if not self._messages:
            first = f"r={token.rpartition('r=')[2]}more,s=c2FsdA==,i=4096"
            self._messages = [token.removeprefix("n,,"), first]
            return SaslAuthenticateResponse(auth_bytes=first.encode())
        without_proof, _, proof = token.rpartition(",p=")
        both = ",".join((*self._messages, without_proof)).encode()
        salted = hashlib.pbkdf2_hmac("sha256", self._password, b"salt", 4096)
        client_key = hmac.digest(salted, b"Client Key", "sha256")
        signature = hmac.digest(hashlib.sha256(client_key).digest(), both, "sha256")
        expected = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        if b64decode(proof) != expected:
            return SaslAuthenticateResponse(error_code=58, error_message="wrong password")
        self.has_let_in = True
        server = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), both, "sha256")
        return SaslAuthenticateResponse(auth_bytes=b"v=" + b64encode(server))


async def test_a_correct_password_is_accepted() -> None:
    guard = SaslServer(["SCRAM-SHA-256"])
    await log_in(PENCIL, guard.call)
    assert guard.has_let_in


@pytest.mark.parametrize(
    ("guard", "message"),
    [
        (SaslServer(["PLAIN", "GSSAPI"]), "does not support SCRAM-SHA-256, but PLAIN, GSSAPI"),
        (SaslServer(["SCRAM-SHA-256"], "pen"), "refuses user 'user': wrong password"),
    ],
)
async def test_a_refused_login_has_the_reason(guard: SaslServer, message: str) -> None:
    with pytest.raises(LoginError, match=message):
        await log_in(PENCIL, guard.call)


def test_a_token_is_sent_and_its_refusal_is_acknowledged() -> None:
    exchange = access.bearer_token(Login("OAUTHBEARER", "user", "a.b.c"), NONCE)
    assert next(exchange) == b"n,,\x01auth=Bearer a.b.c\x01\x01"
    assert exchange.send(b'{"status":"invalid_token"}') == b"\x01"
    accepted = access.bearer_token(Login("OAUTHBEARER", "user", "a.b.c"), NONCE)
    next(accepted)
    with pytest.raises(StopIteration):
        accepted.send(b"")


def test_every_mechanism_has_a_generator() -> None:
    for mechanism, steps in access.MECHANISMS.items():
        assert next(steps(Login(mechanism, "user", "pencil"), NONCE))
