"""Real clients with delegation tokens: Kafka's tool manages them, and clients log in by token.

The tool calls the methods of Java's Admin client. librdkafka cannot log in by token.
"""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, NamedTuple

import pytest

from kafkalite.testing import Broker
from tests.clients.client_libraries import franz_go_worker
from tests.clients.tools import Output, run_tool
from tests.oracle.jars import jar_directory
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.client, pytest.mark.endurance]

USERS = {"alice": "alice's secret", "bob": "bob's secret"}
CONFIG = {"delegation.token.secret.key": "signs-all-tokens"}
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


class Token(NamedTuple):
    """A row of the tool's table."""

    token_id: str
    hmac: str
    owner: str
    requester: str
    renewers: str
    expiry: str


class Tool:
    """Kafka's tool for delegation tokens, as one user of one broker."""

    def __init__(self, broker: Broker, directory: Path, user: str, login: str = "") -> None:
        self._broker = broker
        path = directory / f"{user}.properties"
        login = login or f'username="{user}" password="{USERS[user]}"'
        path.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
            f"sasl.jaas.config={SCRAM} required {login};\n"
        )
        self.properties = str(path)

    def run(self, *arguments: str) -> Output:
        return run_tool(
            "kafka-delegation-tokens",
            self._broker.bootstrap_servers,
            "--command-config", self.properties, *arguments,
        )  # fmt: skip

    def tokens(self, *arguments: str) -> list[Token]:
        """Return the tokens that the tool prints."""
        output = self.run(*arguments)
        assert output.status == 0, output
        rows = [row for row in output.rows if len(row) == 8 and len(row[0]) == 22]
        return [Token(row[0], row[1], row[2], row[3], row[4], row[6]) for row in rows]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with required():
        jar_directory()
    with Broker(
        security="SASL_PLAINTEXT", users=USERS, config=CONFIG, topics={"t": 1}, log_level="error"
    ) as started:
        yield started


@pytest.fixture
def alice(broker: Broker, tmp_path: Path) -> Tool:
    return Tool(broker, tmp_path, "alice")


def create(tool: Tool, *arguments: str) -> Token:
    (token,) = tool.tokens("--create", "--max-life-time-period", "-1", *arguments)
    return token


def test_the_tool_of_kafka_manages_tokens(broker: Broker, alice: Tool, tmp_path: Path) -> None:
    token = create(alice, "--renewer-principal", "User:bob")
    assert (token.owner, token.requester, token.renewers) == (
        "User:alice",
        "User:alice",
        "[User:bob]",
    )
    described = alice.tokens("--describe", "--owner-principal", "User:alice")
    assert token.token_id in [each.token_id for each in described]
    bob = Tool(broker, tmp_path, "bob")
    renewed = bob.run("--renew", "--renew-time-period", "-1", "--hmac", token.hmac)
    assert (renewed.status, "Completed renew operation" in renewed.stdout) == (0, True), renewed
    expired = bob.run("--expire", "--expiry-time-period", "-1", "--hmac", token.hmac)
    assert (expired.status, "Completed expire operation" in expired.stdout) == (0, True), expired
    described = alice.tokens("--describe", "--owner-principal", "User:alice")
    assert token.token_id not in [each.token_id for each in described]
    unknown = bob.run("--renew", "--renew-time-period", "-1", "--hmac", token.hmac)
    assert unknown.status == 1
    assert "Delegation Token is not found on server" in unknown.stdout + unknown.stderr


def test_the_tool_creates_a_token_for_another_owner(alice: Tool) -> None:
    token = create(alice, "--owner-principal", "User:bob")
    assert (token.owner, token.requester) == ("User:bob", "User:alice")
    refused = alice.run("--renew", "--renew-time-period", "-1", "--hmac", token.hmac)
    assert refused.status == 1
    assert "Specified Principal is not valid Owner/Renewer" in refused.stdout + refused.stderr


def test_a_java_client_logs_in_by_token(broker: Broker, alice: Tool, tmp_path: Path) -> None:
    token = create(alice)
    login = f'username="{token.token_id}" password="{token.hmac}" tokenauth="true"'
    by_token = Tool(broker, tmp_path, "token", login)
    listed = run_tool(
        "kafka-topics", broker.bootstrap_servers, "--list", "--command-config", by_token.properties
    )
    assert (listed.status, "t" in listed.lines) == (0, True), listed
    refused = by_token.run("--create", "--max-life-time-period", "-1")
    assert refused.status == 1
    assert "Delegation Token requests are not allowed" in refused.stdout + refused.stderr
    wrong = Tool(broker, tmp_path, "wrong", login.replace(token.hmac, token.hmac[:-4] + "AA=="))
    refused = wrong.run("--describe", "--owner-principal", "User:alice")
    assert refused.status == 1
    assert "invalid credentials with SASL mechanism" in refused.stdout + refused.stderr


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_franz_go_logs_in_by_token(broker: Broker, alice: Tool, mechanism: str) -> None:
    with required():
        command = [*franz_go_worker(), "secured"]
    token = create(alice)

    def ask(password: str) -> dict[str, str]:
        return log_in_by_token(command, broker, token.token_id, password, mechanism)

    assert ask(token.hmac) == {"ok": "value"}
    assert "SASL" in ask("wrong")["error"]


def log_in_by_token(
    command: list[str], broker: Broker, token_id: str, hmac: str, mechanism: str
) -> dict[str, str]:
    """Write and read a record with franz-go; return the value as `ok`, or the `error`."""
    sasl = {"user": token_id, "password": hmac, "mechanism": mechanism, "is_token": True}
    request = {
        "settings": {"seed_brokers": [broker.bootstrap_servers], "sasl": sasl},
        "topic": "t",
        "group": "g",
        "value": "value",
    }
    done = subprocess.run(
        command, input=f"{json.dumps(request)}\n",
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    answer: dict[str, str] = json.loads(done.stdout)
    return answer


def test_a_client_with_an_expired_token_sends_no_requests(alice: Tool, broker: Broker) -> None:
    token = create(alice)
    alice.run("--expire", "--expiry-time-period", "0", "--hmac", token.hmac)
    with required():
        command = [*franz_go_worker(), "secured"]
    answer = log_in_by_token(command, broker, token.token_id, token.hmac, "SCRAM-SHA-512")
    assert "error" in answer, answer
