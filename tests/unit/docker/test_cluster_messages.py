"""Messages between containers: lines, refusals and proofs."""

from __future__ import annotations

import pytest

from kafkalite.config.typed_json import JsonError
from kafkalite.docker.cluster_messages import (
    Admission,
    Application,
    Challenge,
    Greeting,
    Refusal,
    Registration,
    RequestedTopic,
    is_proof,
    line_of,
    proof_of,
    read_answer_line,
    read_line,
)

REGISTRATION = Registration(
    node_id=2,
    host="kafka-2",
    is_broker=True,
    listen=("PLAINTEXT://:9092",),
    advertise=("PLAINTEXT://kafka-2:9092",),
    config={"broker.rack": "b"},
    topics=(RequestedTopic("orders", 3, configs={"cleanup.policy": "compact"}),),
)


def test_message_is_read_from_its_line() -> None:
    application = Application("abc", REGISTRATION)
    line = line_of(application)
    assert line.count(b"\n") == 1
    assert read_line(Application, line) == application


def test_answer_may_be_a_refusal() -> None:
    refusal = Refusal("node 2 is taken")
    assert read_answer_line(Admission, line_of(refusal)) == refusal
    admission = Admission("id", "4.4", "token")
    assert read_answer_line(Admission, line_of(admission)) == admission


@pytest.mark.parametrize("line", [b"GET / HTTP/1.1", b"[" * 100_000, b"{}", b'{"nonce": 1}'])
def test_line_that_is_no_message_is_an_error(line: bytes) -> None:
    with pytest.raises(JsonError):
        read_line(Challenge, line)


def test_proof_is_that_of_one_secret_and_one_connection() -> None:
    greeting, challenge = Greeting("1", "a"), Challenge("b")
    proof = proof_of("secret", greeting, challenge)
    assert is_proof(proof, "secret", greeting, challenge)
    assert not is_proof(proof, "other", greeting, challenge)
    assert not is_proof(proof, "secret", greeting, Challenge("c"))
    assert not is_proof("é", "secret", greeting, challenge)
