"""ProviderKeys: the keys of the broker's own identity provider, without HTTP."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kafkalite.security.sasl.json_web_keys import parse_key_set

if TYPE_CHECKING:
    from kafkalite.identity.provider import IdentityProvider
    from kafkalite.ports.waiting import Waiting
    from kafkalite.security.sasl.json_web_keys import KeySet


class ProviderKeys:
    """The published keys of a provider; a rotation applies to the next token."""

    __slots__ = ("_keys", "_provider", "_version")

    def __init__(self, provider: IdentityProvider) -> None:
        self._provider = provider
        self._version = provider.keys.version
        self._keys = self._read()

    def keys(self) -> KeySet:
        """Return the published keys."""
        version = self._provider.keys.version
        if version != self._version:
            self._version = version
            self._keys = self._read()
        return self._keys

    def first_keys(self) -> Waiting[None] | None:
        """Return None: the keys are always known."""
        return None

    def report_unknown(self, key_id: str) -> None:
        """Do nothing: the keys are always current."""

    def close(self) -> None:
        """Do nothing: there are no downloads."""

    def _read(self) -> KeySet:
        return parse_key_set(json.dumps(self._provider.keys.public_keys()).encode())
