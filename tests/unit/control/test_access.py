"""Logging in: what a client says by each mechanism, and when it does not believe the broker."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from base64 import b64decode, b64encode
from typing import Any

import pytest

from kafkalite.control import access
from kafkalite.control.access import Login, LoginError, log_in, plain, scram
from kafkalite.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from kafkalite.protocol.messages.sasl_handshake import SaslHandshakeResponse

PENCIL = Login("SCRAM-SHA-256", "user", "pencil")
NONCE = "rOprNGfwEbeRWgbNEkqO"


def test_scram_says_what_the_example_of_its_rfc_says() -> None:
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
    ("answers", "told"),
    [
        ([b"no"], "does not speak SCRAM"),
        ([b"r=other,s=AA==,i=1"], "not one for this login"),
        ([f"r={NONCE}x,s=AA==,i=99999999".encode()], "not one for this login"),
        ([f"r={NONCE}x,s=AA==,i=1".encode(), b"v=AAAA"], "does not prove"),
        ([f"r={NONCE}x,s=AA==,i=1".encode(), b"e=other-error"], "does not prove"),
    ],
)
def test_a_broker_that_cannot_prove_itself_is_not_believed(answers: list[bytes], told: str) -> None:
    steps = scram("sha512", PENCIL, NONCE)
    next(steps)
    for answer in answers[:-1]:
        steps.send(answer)
    with pytest.raises(LoginError, match=told):
        steps.send(answers[-1])


def test_names_are_written_so_that_they_end_nothing() -> None:
    steps = scram("sha256", Login("SCRAM-SHA-256", "a,b=c", "p"), NONCE)
    assert next(steps).startswith(b"n,,n=a=2Cb=3Dc,r=")


def test_plain_says_the_password_and_nothing_shows_it_otherwise() -> None:
    login = Login("PLAIN", "user", "pencil")
    assert next(plain(login, NONCE)) == b"\0user\0pencil"
    assert "pencil" not in repr(login)


class Guard:
    """The broker's side, for one user."""

    def __init__(self, mechanisms: list[str], password: str = "pencil") -> None:  # noqa: S107 - made up
        self._mechanisms = mechanisms
        self._password = password.encode()
        self._said: list[str] = []
        self.has_let_in = False

    async def call(self, request: Any, version: int) -> Any:  # noqa: ANN401 - two classes
        assert version == 1
        await asyncio.sleep(0)
        if hasattr(request, "mechanism"):
            is_known = request.mechanism in self._mechanisms
            return SaslHandshakeResponse(
                error_code=0 if is_known else 33, mechanisms=self._mechanisms
            )
        said = request.auth_bytes.decode()
        if not self._said:
            first = f"r={said.rpartition('r=')[2]}more,s=c2FsdA==,i=4096"
            self._said = [said.removeprefix("n,,"), first]
            return SaslAuthenticateResponse(auth_bytes=first.encode())
        without_proof, _, proof = said.rpartition(",p=")
        both = ",".join((*self._said, without_proof)).encode()
        salted = hashlib.pbkdf2_hmac("sha256", self._password, b"salt", 4096)
        client_key = hmac.digest(salted, b"Client Key", "sha256")
        signature = hmac.digest(hashlib.sha256(client_key).digest(), both, "sha256")
        expected = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        if b64decode(proof) != expected:
            return SaslAuthenticateResponse(error_code=58, error_message="wrong password")
        self.has_let_in = True
        server = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), both, "sha256")
        return SaslAuthenticateResponse(auth_bytes=b"v=" + b64encode(server))


async def test_the_right_password_is_let_in() -> None:
    guard = Guard(["SCRAM-SHA-256"])
    await log_in(PENCIL, guard.call)
    assert guard.has_let_in


@pytest.mark.parametrize(
    ("guard", "told"),
    [
        (Guard(["PLAIN", "GSSAPI"]), "does not take SCRAM-SHA-256, but PLAIN, GSSAPI"),
        (Guard(["SCRAM-SHA-256"], "pen"), "refuses user 'user': wrong password"),
    ],
)
async def test_who_is_not_let_in_is_told_why(guard: Guard, told: str) -> None:
    with pytest.raises(LoginError, match=told):
        await log_in(PENCIL, guard.call)


def test_every_mechanism_has_its_steps() -> None:
    for mechanism, steps in access.MECHANISMS.items():
        assert next(steps(Login(mechanism, "user", "pencil"), NONCE))
