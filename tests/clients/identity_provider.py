"""IdentityProvider: a server with a token endpoint and a key set."""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from tests.unit.security.sasl.token_signer import TokenSigner

if TYPE_CHECKING:
    from collections.abc import Iterator

AUDIENCE = "kafka"
LIFETIME_S = 300


class IdentityProvider:
    """Issues tokens for the user alice, signed by `signer`; the key set has the first key."""

    def __init__(self) -> None:
        now_s = int(time.time())
        self.valid = TokenSigner("RS256", "key-1", now_s)
        self.invalid = TokenSigner("RS256", "other", now_s)
        self.signer = self.valid
        self.requests: list[str] = []
        """The paths of the requests."""
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.requests.append(self.path)
                self._answer(provider.valid.key_set)

            def do_POST(self) -> None:
                provider.requests.append(self.path)
                self.rfile.read(int(self.headers["Content-Length"]))
                token = {"access_token": provider.token(), "token_type": "Bearer"}
                self._answer(json.dumps({**token, "expires_in": LIFETIME_S}).encode())

            def _answer(self, body: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
                """Print nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def token(self) -> str:
        """Return a new token; with the invalid signer it names the key of the valid one."""
        return self.signer.token(
            {"kid": "key-1"},
            aud=AUDIENCE,
            iss=self.url,
            scope="produce",
            exp=self.signer.now_s + LIFETIME_S,
        )

    def broker_config(self, listener: str) -> dict[str, str]:
        """Return the settings of a broker that accepts its tokens only."""
        prefix = f"listener.name.{listener.lower()}.oauthbearer.sasl"
        package = "org.apache.kafka.common.security.oauthbearer"
        return {
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            f"{prefix}.server.callback.handler.class": (
                f"{package}.OAuthBearerValidatorCallbackHandler"
            ),
            f"{prefix}.oauthbearer.jwks.endpoint.url": f"{self.url}/keys",
            f"{prefix}.oauthbearer.expected.audience": AUDIENCE,
            "sasl.oauthbearer.expected.issuer": self.url,
        }

    @contextmanager
    def running(self) -> Iterator[None]:
        """Serve requests."""
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()
