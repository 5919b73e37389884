"""Messages between the containers of one cluster: one JSON object a line.

A container opens two kinds of connections to the primary. On the first kind, it sends a Greeting,
gets a Challenge or a Refusal, sends an Application, and gets an Admission or a Refusal. Then each
side sends Signs; the connection exists as long as the membership. On the second kind, it sends the
Introduction of a client, gets an empty line, and passes the bytes of the client.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import dataclass, field
from typing import Final, TypeVar

from kafkalite.config.typed_json import JsonError, json_text, read

T = TypeVar("T")

MAX_LINE_BYTES: Final = 1 << 20
SIGN_INTERVAL_S: Final = 0.25
"""Time between two signs of life of a container."""
MAX_SILENCE_S: Final = 1.5
"""Time without a sign after which a node is isolated from the others."""


@dataclass(frozen=True, slots=True)
class Greeting:
    """The first line of a container that applies for membership."""

    version: str
    nonce: str


@dataclass(frozen=True, slots=True)
class Challenge:
    """The answer to a greeting."""

    nonce: str


@dataclass(frozen=True, slots=True)
class RequestedTopic:
    """A topic that the environment of a container requests; -1 replicas are the default."""

    name: str
    partitions: int
    replicas: int = -1
    configs: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Registration:
    """A node, as the environment of its container describes it."""

    node_id: int
    host: str
    """The name of the container."""
    is_broker: bool
    listen: tuple[str, ...]
    advertise: tuple[str, ...]
    config: dict[str, str]
    users: tuple[str, ...] = ()
    topics: tuple[RequestedTopic, ...] = ()
    cluster_id: str | None = None
    as_version: str | None = None


@dataclass(frozen=True, slots=True)
class Application:
    """A registration with the proof that the container has the secret of the cluster."""

    proof: str
    registration: Registration


@dataclass(frozen=True, slots=True)
class Admission:
    """The answer to an application that is accepted."""

    cluster_id: str
    release: str
    token: str
    """What the introductions of clients have."""
    without_effect: tuple[str, ...] = ()
    """Settings of the registration that differ from those of the cluster."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The answer to a greeting or an application that is refused."""

    refused: str
    """The reason, as one sentence."""
    is_temporary: bool = False
    """Whether the container should apply again."""


@dataclass(frozen=True, slots=True)
class Sign:
    """A sign of life; with `stop`, the last one of a node that shuts down."""

    stop: bool = False


@dataclass(frozen=True, slots=True)
class Introduction:
    """The first line of the connection of a client."""

    token: str
    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class FirstLine:
    """The first line of a connection: one of its fields is given."""

    greeting: Greeting | None = None
    introduction: Introduction | None = field(default=None)


def line_of(message: object) -> bytes:
    """Return the line of a message."""
    return json_text(message).encode() + b"\n"


def read_line(kind: type[T], line: bytes) -> T:
    """Return the message in a line; raises JsonError."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise JsonError("a line is no JSON") from None
    return read(kind, value, "a line")


def read_answer_line(kind: type[T], line: bytes) -> T | Refusal:
    """Return the answer in a line, or the refusal in its place; raises JsonError."""
    if line.startswith(b'{"refused"'):
        return read_line(Refusal, line)
    return read_line(kind, line)


def proof_of(secret: str, greeting: Greeting, challenge: Challenge) -> str:
    """Return the proof of a secret for one connection; the secret itself is never sent."""
    nonces = f"{greeting.nonce}:{challenge.nonce}".encode()
    return hmac.new(secret.encode(), nonces, hashlib.sha256).hexdigest()


def is_proof(proof: str, secret: str, greeting: Greeting, challenge: Challenge) -> bool:
    """Return whether a proof is that of the secret."""
    return hmac.compare_digest(proof.encode(), proof_of(secret, greeting, challenge).encode())
