# ruff: noqa: S105 - secrets of brokers that live for a moment
"""No secret leaves the broker: logs, captures, explanations, answers, command line and data.

A broker gets every kind of secret as an option. Clients authenticate with right and wrong ones.
Then all that the broker wrote and answered is searched. The metadata log is left out, because Kafka
stores changed settings and SCRAM credentials there.
"""

from __future__ import annotations

import io
import json
import re
import socket
import ssl
import subprocess
import sys
from base64 import b64encode, urlsafe_b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    pkcs12,
)

from kafkalite.cli.main import main
from kafkalite.control import http as control_http
from kafkalite.protocol._generated.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkalite.protocol._generated.messages.sasl_handshake import SaslHandshakeRequest
from kafkalite.security.certificates import CertificateAuthority
from kafkalite.security.sasl import oauthbearer, plain, scram
from kafkalite.security.sasl.scram_credentials import SCRAM_BY_NAME
from kafkalite.server.logging import Level, Log
from kafkalite.testing import Broker
from tests.architecture.source import ROOT
from tests.unit.frames import read_answer, request_frame
from tests.unit.security.sasl.scram_client import ScramClient

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PLAIN_PASSWORD = "plain-horse-staple"
SCRAM_PASSWORD = "scram-horse-staple"
JAAS_PASSWORD = "jaas-horse-staple"
WRONG_PASSWORD = "wrong-horse-staple"
NEW_PASSWORD = "new-horse-staple"
CHANGED_PASSWORD = "changed-horse-staple"
KEY_PASSWORD = "key-horse-staple"
STORE_PASSWORD = "store-horse-staple"
CONTROL_TOKEN = "control-horse-staple"
WRONG_CONTROL_TOKEN = "wrong-control-horse-staple"
SALT = b"salt-horse-staple"


def unsecured_token(**claims: object) -> str:
    def section(members: Mapping[str, object]) -> str:
        return urlsafe_b64encode(json.dumps(members).encode()).decode().rstrip("=")

    return f"{section({'alg': 'none'})}.{section({'sub': 'dora', **claims})}."


TOKEN = unsecured_token(exp=4_000_000_000, jti="jwt-horse-staple")
EXPIRED_TOKEN = unsecured_token(exp=1, jti="expired-horse-staple")
MALFORMED_TOKEN = "malformed.horse.staple"

SECRETS = (
    PLAIN_PASSWORD, SCRAM_PASSWORD, JAAS_PASSWORD, WRONG_PASSWORD, NEW_PASSWORD, CHANGED_PASSWORD,
    KEY_PASSWORD, STORE_PASSWORD, CONTROL_TOKEN, WRONG_CONTROL_TOKEN, SALT.decode(),
    TOKEN, EXPIRED_TOKEN, MALFORMED_TOKEN, TOKEN.split(".")[1], EXPIRED_TOKEN.split(".")[1],
)  # fmt: skip
_PREFIX = "org.apache.kafka.common.security"
JAAS = f'{_PREFIX}.plain.PlainLoginModule required user_carol="{JAAS_PASSWORD}";'
OAUTH_JAAS = f"{_PREFIX}.oauthbearer.OAuthBearerLoginModule required;"
_TIMEOUT_S = 30


def found_secrets(content: bytes) -> list[str]:
    """Return the secrets in some bytes, as they are and in encodings."""
    return [
        secret
        for secret in SECRETS
        if any(
            form in content
            for raw in (secret.encode(),)
            for form in (raw, b64encode(raw).rstrip(b"="), raw.hex().encode())
        )
    ]


class SaslClient:
    """A connection that authenticates step by step."""

    def __init__(self, port: int, context: ssl.SSLContext | None = None) -> None:
        connection = socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_S)
        self._socket = connection if context is None else context.wrap_socket(connection)
        self.received = bytearray()

    def _receive(self, count: int) -> bytes:
        content = b""
        while len(content) < count:
            chunk = self._socket.recv(count - len(content))
            if not chunk:
                raise ConnectionResetError
            content += chunk
        self.received += content
        return content

    def _ask(self, request: Any, version: int) -> Any:  # noqa: ANN401 - any request
        self._socket.sendall(request_frame(request, version))
        size = int.from_bytes(self._receive(4))
        return read_answer(request.API_KEY, version, self._receive(size))[1]

    def handshake(self, mechanism: str) -> None:
        assert self._ask(SaslHandshakeRequest(mechanism=mechanism), 1).error_code == 0

    def authenticate(self, token: bytes) -> Any:  # noqa: ANN401 - a response
        return self._ask(SaslAuthenticateRequest(auth_bytes=token), 2)

    def log_in(self, mechanism: str, *credentials: str) -> bool:
        """Authenticate, and return whether the broker accepts it; then close the connection."""
        with self._socket:
            self.handshake(mechanism)
            if mechanism == "PLAIN":
                token = "\0".join(("", *credentials)).encode()
            elif mechanism == "OAUTHBEARER":
                token = b"n,,\x01auth=Bearer " + credentials[0].encode() + b"\x01\x01"
            else:
                client = ScramClient(SCRAM_BY_NAME[mechanism], *credentials)
                token = client.final(bytes(self.authenticate(client.first()).auth_bytes))
            answer = self.authenticate(token)
            if mechanism == "OAUTHBEARER" and answer.auth_bytes:
                answer = self.authenticate(b"\x01")  # RFC 7628: the client confirms the error
            return bool(answer.error_code == 0)


LOGINS = (
    ("PLAIN", ("alice", PLAIN_PASSWORD), True),
    ("PLAIN", ("carol", JAAS_PASSWORD), True),
    ("PLAIN", ("alice", WRONG_PASSWORD), False),
    ("PLAIN", (WRONG_PASSWORD, "alice"), False),
    ("PLAIN", ("alice", WRONG_PASSWORD, "more"), False),
    ("SCRAM-SHA-256", ("bob", SCRAM_PASSWORD), True),
    ("SCRAM-SHA-256", ("bob", WRONG_PASSWORD), False),
    ("OAUTHBEARER", (TOKEN,), True),
    ("OAUTHBEARER", (EXPIRED_TOKEN,), False),
    ("OAUTHBEARER", (MALFORMED_TOKEN,), False),
)
"""Mechanism, credentials, and whether the broker accepts them."""


class Served(NamedTuple):
    """`kafkalite serve` with all kinds of secrets."""

    process: subprocess.Popen[str]
    ports: Mapping[str, int]
    control_port: int
    directory: Path
    banner: str


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    arguments = [
        "--listen", "SASL_PLAINTEXT://127.0.0.1:0", "--listen", "SASL_SSL://127.0.0.1:0",
        "--listen", "SSL://127.0.0.1:0", "--brokers", "1", "--topic", "t:1",
        "--user", f"alice:{PLAIN_PASSWORD}:PLAIN", f"--user=bob:{SCRAM_PASSWORD}:SCRAM-SHA-256",
        "--control", "0", "--control-token", CONTROL_TOKEN, "--control-tls", "off",
        "--data-dir", str(tmp_path / "data"), "--capture", str(tmp_path / "captures"),
        "--log-level", "debug", "--log-format", "json",
    ]  # fmt: skip
    for key, value in _settings(tmp_path).items():
        arguments += ["--config", f"{key}={value}"]
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(
            [sys.executable, "-m", "kafkalite", "serve", *arguments],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=ROOT,
        ) as process,
    ):
        try:
            yield _ready(process, tmp_path)
        finally:
            process.kill()


def _ready(process: subprocess.Popen[str], directory: Path) -> Served:
    """Return the broker when it is ready."""
    assert process.stdout is not None
    banner = ""
    while "stop with Ctrl-C" not in banner:
        line = process.stdout.readline()
        assert line, (directory / "log").read_text()
        banner += line
    *listeners, control_port = (int(port) for port in re.findall(r"127\.0\.0\.1:(\d+)", banner))
    names = ("SASL_PLAINTEXT", "SASL_SSL", "SSL")
    ports = dict(zip(names, listeners, strict=True))
    return Served(process, ports, control_port, directory, banner)


def _settings(directory: Path) -> dict[str, str]:
    authority = CertificateAuthority.create()
    issued = authority.issue("kafkalite", ["127.0.0.1"])
    encryption = BestAvailableEncryption(KEY_PASSWORD.encode())
    (directory / "server.pem").write_bytes(
        issued.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
        + issued.certificate_pem
    )
    (directory / "server.p12").write_bytes(
        pkcs12.serialize_key_and_certificates(
            b"server",
            issued.key,
            issued.certificate,
            None,
            BestAvailableEncryption(STORE_PASSWORD.encode()),
        )
    )
    (directory / "ca.pem").write_bytes(authority.pem)
    listener = "listener.name.sasl_plaintext"
    return {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        f"{listener}.plain.sasl.jaas.config": JAAS,
        f"{listener}.oauthbearer.sasl.jaas.config": OAUTH_JAAS,
        "listener.name.sasl_ssl.plain.sasl.jaas.config": JAAS,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(directory / "server.pem"),
        "ssl.key.password": KEY_PASSWORD,
        "listener.name.sasl_ssl.ssl.keystore.type": "PKCS12",
        "listener.name.sasl_ssl.ssl.keystore.location": str(directory / "server.p12"),
        "listener.name.sasl_ssl.ssl.keystore.password": STORE_PASSWORD,
        "listener.name.sasl_ssl.ssl.key.password": STORE_PASSWORD,
        "connection.failed.authentication.delay.ms": "0",
    }


def authenticate(served: Served) -> bytes:
    """Log in with right and wrong secrets on both listeners, and return all answers."""
    context = ssl.create_default_context(cafile=str(served.directory / "ca.pem"))
    context.check_hostname = False
    answers = bytearray()
    for name, tls in (("SASL_PLAINTEXT", None), ("SASL_SSL", context)):
        for mechanism, credentials, is_accepted in LOGINS:
            client = SaslClient(served.ports[name], tls)
            assert client.log_in(mechanism, *credentials) is is_accepted, (mechanism, credentials)
            answers += client.received
    # Secrets where the broker does not expect them.
    for secret in SECRETS:
        with socket.create_connection(("127.0.0.1", served.ports["SSL"])) as plain_client:
            plain_client.sendall(secret.encode())
        with socket.create_connection(("127.0.0.1", served.ports["SASL_PLAINTEXT"])) as unframed:
            unframed.sendall(secret.encode())
    return bytes(answers)


def administrate(served: Served) -> str:
    """Change and describe secrets as an administrator; return the text of all answers."""
    admin = AdminClient(
        {
            "bootstrap.servers": f"127.0.0.1:{served.ports['SASL_PLAINTEXT']}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": PLAIN_PASSWORD,
        }
    )
    texts = []
    scram_info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    few_iterations = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 1)
    for info in (scram_info, few_iterations):
        row = UserScramCredentialUpsertion("erin", info, NEW_PASSWORD.encode(), SALT)
        results = admin.alter_user_scram_credentials([row]).values()
        texts += [str(altered.exception(_TIMEOUT_S)) for altered in results]
    jaas = JAAS.replace(JAAS_PASSWORD, CHANGED_PASSWORD)
    for name, value in (
        ("listener.name.sasl_plaintext.plain.sasl.jaas.config", jaas),
        ("listener.name.sasl_plaintext.plain.sasl.jaas.config", jaas.rstrip(";")),
        ("listener.name.sasl_plaintext.plain.sasl.jaas.config", f"{CHANGED_PASSWORD} = ;"),
        ("listener.name.sasl_ssl.ssl.keystore.password", CHANGED_PASSWORD),
        ("not.a.setting.but.a.password", CHANGED_PASSWORD),
    ):
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
        changes = admin.incremental_alter_configs([resource]).values()
        texts += [str(altered.exception(_TIMEOUT_S)) for altered in changes]
    resource = ConfigResource(ConfigResource.Type.BROKER, "1")
    for described in admin.describe_configs([resource]).values():
        entries = described.result(_TIMEOUT_S).values()
        texts += [f"{entry.name}={entry.value} {entry.synonyms}" for entry in entries]
    users: Any = admin.describe_user_scram_credentials(["bob", "erin"])
    texts += [str(described_user.result(_TIMEOUT_S)) for described_user in users.values()]
    return "\n".join(texts)


def control(served: Served) -> bytes:
    """Send right and wrong tokens in right and wrong places; return all answers."""
    requests = [
        f"GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: {authorization}\r\n"
        "connection: close\r\n\r\n"
        for path in ("/v1", "/v1/explain", "/v1/health", "/v1/faults", "/v1/nodes", "/v1/nothing")
        for authorization in (
            f"Bearer {CONTROL_TOKEN}",
            f"Bearer {WRONG_CONTROL_TOKEN}",
            f"Basic {WRONG_CONTROL_TOKEN}",
        )
    ]
    requests += [
        f"GET /v1?token={CONTROL_TOKEN} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
        f"Bearer {CONTROL_TOKEN}\r\n\r\n",
        f"GET /v1 HTTP/1.1\r\nhost: localhost\r\nBearer {CONTROL_TOKEN}\r\n\r\n",
    ]
    answers = b""
    for request in requests:
        with socket.create_connection(("127.0.0.1", served.control_port)) as client:
            client.sendall(request.encode())
            while chunk := client.recv(100_000):
                answers += chunk
    return answers


def test_no_secret_leaves_the_broker(served: Served) -> None:
    command_line = Path(f"/proc/{served.process.pid}/cmdline")
    seen = {"banner": served.banner.encode()}
    if command_line.exists():
        seen["command line"] = command_line.read_bytes()
        assert b"alice:******************" in seen["command line"]
    seen["answers"] = authenticate(served)
    seen["answers to the administrator"] = administrate(served).encode()
    seen["control API"] = control(served)
    served.process.terminate()
    assert served.process.wait(_TIMEOUT_S) == 0
    captures = sorted((served.directory / "captures").iterdir())
    seen |= {str(path): path.read_bytes() for path in captures}
    seen["log"] = (served.directory / "log").read_bytes()
    seen |= {
        str(path): path.read_bytes()
        for path in (served.directory / "data").rglob("*")
        if path.is_file() and "__cluster_metadata" not in path.parent.name
    }
    assert {
        name: secrets for name, content in seen.items() if (secrets := found_secrets(content))
    } == {}
    # What was searched has what it must have.
    assert b"SaslAuthenticate" in seen["log"]
    assert b"Invalid username or password" in seen["log"]
    assert b'"status":"ok"' in seen["control API"]
    assert b"ssl.key.password=None" in seen["answers to the administrator"]
    recorded = b"".join(path.read_bytes() for path in captures)
    assert b"SCRAM-SHA-256" in recorded
    assert b"ssl.keystore.password" in recorded


@pytest.mark.parametrize("style", ["json", "console"])
def test_tracebacks_have_no_secrets(style: str, monkeypatch: pytest.MonkeyPatch) -> None:
    log_output = io.StringIO()
    log = Log(Level.DEBUG, style, log_output)
    monkeypatch.setattr("kafkalite.testing.broker._log_of", lambda _: log)

    def fail(*_: object) -> None:
        raise LookupError("a fault")

    monkeypatch.setattr(plain, "_digest", fail)
    monkeypatch.setattr(scram.ScramServer, "_evaluate_final", fail)
    monkeypatch.setattr(oauthbearer, "_parse_first_message", fail)
    monkeypatch.setattr(control_http, "to_json", fail)
    config = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS,
    }
    with Broker(
        security="SASL_PLAINTEXT",
        users={"alice": PLAIN_PASSWORD, "bob": SCRAM_PASSWORD},
        config=config,
        control=True,
        control_token=CONTROL_TOKEN,
    ) as broker:
        port = int(broker.bootstrap_servers.rpartition(":")[2])
        for mechanism, credentials, _ in LOGINS:
            try:
                SaslClient(port).log_in(mechanism, *credentials)
            except ConnectionResetError:
                continue
        with socket.create_connection(
            ("127.0.0.1", int(broker.control_url.rpartition(":")[2]))
        ) as client:
            client.sendall(
                b"GET /v1/clock HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
                b"authorization: Bearer " + CONTROL_TOKEN.encode() + b"\r\n\r\n"
            )
            assert client.recv(1_000).startswith(b"HTTP/1.1 500 ")
    output = log_output.getvalue()
    assert output.count("a fault") >= 4
    assert found_secrets(output.encode()) == []


@pytest.mark.parametrize(
    "options",
    [
        ("--user", PLAIN_PASSWORD),
        ("--user", f"alice:{PLAIN_PASSWORD}:GSSAPI"),
        ("--user", f"alice:{PLAIN_PASSWORD}", "--user", f"alice:{PLAIN_PASSWORD}"),
        ("--config", f"x.sasl.jaas.config {JAAS_PASSWORD}"),
        ("--config", f"ssl.key.password:{KEY_PASSWORD}"),
        ("--node-config", f"ssl.key.password={KEY_PASSWORD}"),
        ("--config", f"listener.name.sasl_plaintext.plain.sasl.jaas.config={JAAS_PASSWORD}"),
        ("--config", f"ssl.keystore.key={KEY_PASSWORD}"),
        ("--config", f"listener.name.sasl_plaintext.plain.sasl.jaas.config={JAAS[:-1]}"),
        ("--control", "0", "--control-token", f"{CONTROL_TOKEN} "),
        ("--control-token", CONTROL_TOKEN),
    ],
)
def test_errors_about_options_have_no_secrets(
    capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    protocol = "SSL" if any("keystore" in option for option in options) else "SASL_PLAINTEXT"
    with pytest.raises(SystemExit) as exited:
        main(["serve", "--listen", f"{protocol}://127.0.0.1:0", *options])
    printed = capsys.readouterr()
    assert exited.value.code == 2, printed.err
    assert len(printed.err.splitlines()) == 1
    assert found_secrets(f"{printed.out}{printed.err}".encode()) == []
