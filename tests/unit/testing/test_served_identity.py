"""ServedIdentity: invalid arguments, and the port across starts."""

from __future__ import annotations

import pytest

from kafkalite.ports.clock import SteppedClock
from kafkalite.server.logging import Level, Log
from kafkalite.testing.served_identity import ServedIdentity

LOG = Log(Level.ERROR)


async def test_without_address_there_is_no_provider() -> None:
    served = ServedIdentity(oidc=False, clients=None)
    assert served.bind(SteppedClock(0), LOG) is None
    await served.start()
    await served.stop()


async def test_a_stop_releases_the_port() -> None:
    served = ServedIdentity(oidc=True, clients={"a": "s"})
    provider = served.bind(SteppedClock(0), LOG)
    assert provider is not None
    assert [client.id for client in provider.clients] == ["a"]
    await served.start()
    await served.stop()
    again = ServedIdentity(provider.issuer.removeprefix("http://"), None)
    assert again.bind(SteppedClock(0), LOG) is not None
    await again.stop()


def test_clients_need_a_provider() -> None:
    with pytest.raises(ValueError, match="oidc_clients needs oidc"):
        ServedIdentity(oidc=False, clients={"a": "s"})
    with pytest.raises(ValueError, match="secret"):
        ServedIdentity(oidc=True, clients={"a": ""})
