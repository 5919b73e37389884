"""An identity provider of a broker with a stopped clock, and its applications."""

from __future__ import annotations

import io
from base64 import b64encode
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from kafkalite.control.http import ControlApp
from kafkalite.control.identity_endpoints import IdentityApp
from kafkalite.identity.provider import IdentityProvider
from kafkalite.ports.clock import AdjustableClock
from kafkalite.ports.seeded_entropy import SeededEntropy
from kafkalite.server.client_warnings import ClientWarnings
from kafkalite.server.logging import Level, Log

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.server.broker import Broker

ISSUER = "http://127.0.0.1:9098"
FORM = {"content-type": "application/x-www-form-urlencoded"}
BASIC = {"authorization": f"Basic {b64encode(b'kafkalite:kafkalite-secret').decode()}"}
REQUEST = b"grant_type=client_credentials"


class IdentityService:
    """A provider, its HTTP application, and the control endpoint of its broker."""

    def __init__(self, allowed_hosts: Sequence[str] | None = None) -> None:
        self.clock = AdjustableClock(rate=0, now_ms=0)
        self.lines = io.StringIO()
        log = Log(Level.INFO, "json", self.lines)
        self.provider = IdentityProvider(ISSUER, self.clock, SeededEntropy())
        self.app = IdentityApp(
            self.provider, self.clock, ClientWarnings(self.clock, log.warning), allowed_hosts
        ).app
        self.broker = cast("Broker", SimpleNamespace(identity=self.provider, clock=self.clock))
        self.control = ControlApp(self.broker, log, ("127.0.0.1",)).app
