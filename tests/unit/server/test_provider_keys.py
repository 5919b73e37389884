"""ProviderKeys: the keys of an identity provider before and after a rotation."""

from __future__ import annotations

from kafkalite.identity.provider import IdentityProvider
from kafkalite.ports.clock import SteppedClock
from kafkalite.ports.seeded_entropy import SeededEntropy
from kafkalite.server.provider_keys import ProviderKeys


def test_the_keys_are_those_that_are_published() -> None:
    provider = IdentityProvider("http://127.0.0.1:9098", SteppedClock(0), SeededEntropy())
    keys = ProviderKeys(provider)
    first = provider.keys.current.id
    assert keys.keys().key_ids == {first}
    assert keys.keys() is keys.keys()
    assert keys.first_keys() is None
    second = provider.keys.add("ES256").id
    assert keys.keys().key_ids == {first, second}
    provider.keys.retire(first)
    keys.report_unknown(first)
    assert keys.keys().key_ids == {second}
    keys.close()
