"""An installation without the extra `security`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

PACKAGE = "cryptography"
USING_MODULES = ("kafkalite.security.distinguished_name", "kafkalite.security.certificates")


def hide_cryptography(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every import of `cryptography` fail until the end of a test."""
    for name in list(sys.modules):
        if name in USING_MODULES or name.startswith(f"{PACKAGE}."):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, PACKAGE, None)
