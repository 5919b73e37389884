"""A schema registry with fixed answers, and values of Confluent's serializers."""

from __future__ import annotations

import json
from base64 import b64decode
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_FILE = Path(__file__).parents[3] / "clients" / "schema_values.json"


class SchemaServer:
    """A running registry."""

    def __init__(self, answers: Mapping[str, object]) -> None:
        """Answer requests for the paths in `answers`: JSON, bytes, or None for no answer."""
        self.answers = dict(answers)
        self.paths: list[str] = []
        self.authorizations: list[str | None] = []
        self.is_over = Event()
        self.url = ""


@contextmanager
def schema_server(answers: Mapping[str, object]) -> Iterator[SchemaServer]:
    """Serve a registry on a free port."""
    registry = SchemaServer(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            registry.paths.append(self.path)
            registry.authorizations.append(self.headers["authorization"])
            answer = registry.answers.get(self.path, b"")
            if answer is None:
                registry.is_over.wait()
                return
            body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(200 if self.path in registry.answers else 404)
            self.send_header("content-length", f"{len(body)}")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Write nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        registry.is_over.set()
        server.shutdown()
        server.server_close()
        thread.join()


class SerializedValue(NamedTuple):
    """A value that one of Confluent's serializers wrote."""

    name: str
    content: bytes
    expected: Any
    answers: Mapping[str, object]
    """The answers of a registry that has its schemas, by path."""

    @property
    def schema_id(self) -> int:
        """The id of its schema."""
        return int.from_bytes(self.content[1:5], "big")


def serialized_values() -> dict[str, SerializedValue]:
    """Return the values that `python -m tests.clients.record_schema_values` recorded, by name."""
    recorded = json.loads(_FILE.read_text(encoding="utf-8"))["values"]
    return {
        each["name"]: SerializedValue(
            each["name"], b64decode(each["content"]), each["expected"], each["answers"]
        )
        for each in recorded
    }
