"""Imports of codecs before the tests of captures start brokers in threads."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import pytest

from kafkalite.protocol._generated.codecs import client


@pytest.fixture(scope="session", autouse=True)
def _imported_codecs() -> None:
    """Import the codecs of clients, which a replay otherwise imports when it needs them.

    CPython 3.11 can raise SystemError if a module is parsed while other threads run (gh-106905).
    """
    for module in pkgutil.iter_modules(client.__path__):
        import_module(f"{client.__name__}.{module.name}")
