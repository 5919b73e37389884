"""The identity provider on its socket."""

from __future__ import annotations

import io
import json
import socket
from urllib.request import ProxyHandler, build_opener

import pytest

from kafkalite.control.address import control_address
from kafkalite.control.identity_server import IdentityServer
from kafkalite.identity.clients import OAuthClient
from kafkalite.ports.clock import SteppedClock
from kafkalite.server.logging import Level, Log
from kafkalite.testing import Broker
from kafkalite.testing.token_providers import OAuthLogin, request_token

urlopen = build_opener(ProxyHandler({})).open
"""An opener that ignores proxy settings."""


def test_it_serves_until_the_broker_stops() -> None:
    with Broker(oidc=True) as broker:
        issuer = broker.identity.issuer
        with urlopen(f"{issuer}/.well-known/openid-configuration", timeout=10) as response:
            metadata = json.load(response)
        assert metadata["issuer"] == issuer
        assert metadata["token_endpoint"] == broker.identity.token_endpoint
        login = OAuthLogin(metadata["token_endpoint"], "kafkalite", "kafkalite-secret")
        assert request_token(login).count(".") == 2
    port = int(issuer.rpartition(":")[2])
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
        pass


def test_given_clients_replace_the_default_client() -> None:
    with Broker(oidc="127.0.0.1:0", oidc_clients={"billing": "s"}) as broker:
        assert broker.identity.client_ids == ["billing"]


async def test_a_public_secret_on_a_public_address_is_reported() -> None:
    for clients, count in (((), 1), ((OAuthClient("a", "s"),), 0)):
        lines = io.StringIO()
        server = IdentityServer(
            control_address("0.0.0.0:0"), clients, SteppedClock(0), Log(Level.INFO, "json", lines)
        )
        await server.stop()
        assert lines.getvalue().count("public secret") == count
