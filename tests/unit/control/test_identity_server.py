"""The identity provider on its socket."""

from __future__ import annotations

import io
import json
import socket
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

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


@pytest.mark.parametrize(
    ("address", "other_host_status"), [("127.0.0.1:0", 403), ("0.0.0.0:0", 200)]
)
def test_host_names_of_containers_reach_an_address_of_all_machines(
    address: str, other_host_status: int
) -> None:
    with Broker(oidc=address, oidc_clients={"billing": "s"}) as broker:
        url = broker.identity.issuer + "/jwks"
        statuses = {}
        for host in ("localhost:9098", "kafkalite:8080"):
            try:
                with urlopen(Request(url, headers={"Host": host}), timeout=10) as response:  # noqa: S310 - http
                    statuses[host] = response.status
            except HTTPError as error:
                statuses[host] = error.code
        assert statuses == {"localhost:9098": 200, "kafkalite:8080": other_host_status}


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
