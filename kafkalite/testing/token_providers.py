"""Token providers of client libraries that request tokens by code of the user."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from typing import TYPE_CHECKING, Any, Final

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.security.sasl.users import OAUTHBEARER

if TYPE_CHECKING:
    from kafkalite.client.access import Login

_TIMEOUT_S: Final = 10.0


class OAuthLogin(NamedTuple):
    """A client of an identity provider, and the URL of the token endpoint."""

    token_endpoint: str
    client_id: str
    client_secret: str

    def __repr__(self) -> str:
        """Return a text without the secret."""
        return f"OAuthLogin({self.token_endpoint!r}, {self.client_id!r})"


def request_token(login: OAuthLogin) -> str:
    """Return a new access token; raises OSError if the provider refuses or does not answer.

    Raises ValueError if its response is not JSON.
    """
    from urllib.request import ProxyHandler, Request, build_opener  # noqa: PLC0415 - a fast start

    credentials = b64encode(f"{login.client_id}:{login.client_secret}".encode()).decode()
    headers = {
        "Authorization": f"Basic {credentials}",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    request = Request(login.token_endpoint, b"grant_type=client_credentials", headers)  # noqa: S310 - the broker's own provider
    # A proxy cannot reach a provider on this machine.
    with build_opener(ProxyHandler({})).open(request, timeout=_TIMEOUT_S) as response:
        token: str = json.load(response)["access_token"]
    return token


def token_login(login: OAuthLogin) -> Login:
    """Return a login of our own client with a new token; raises as `request_token`."""
    from kafkalite.client.access import Login  # noqa: PLC0415 - rarely used

    return Login(OAUTHBEARER, login.client_id, request_token(login))


def aiokafka_token_provider(login: OAuthLogin) -> Any:  # noqa: ANN401 - a class of the library
    """Return the value of `sasl_oauth_token_provider` for aiokafka."""
    from aiokafka.abc import AbstractTokenProvider  # noqa: PLC0415 - the user's library

    class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]  # untyped
        async def token(self) -> str:
            return await asyncio.to_thread(request_token, login)

    return TokenProvider()


def kafka_python_token_provider(login: OAuthLogin) -> Any:  # noqa: ANN401 - a class of the library
    """Return the value of `sasl_oauth_token_provider` for kafka-python."""
    try:
        from kafka.net.sasl.oauth import AbstractTokenProvider  # noqa: PLC0415 - the user's library
    except ImportError:  # before version 3
        from kafka.sasl.oauth import AbstractTokenProvider  # noqa: PLC0415 - as above

    class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]  # untyped
        def token(self) -> str:
            return request_token(login)

    return TokenProvider()
