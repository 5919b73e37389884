"""The listener of a broker whose port does not matter, so that tests can run in parallel."""

from __future__ import annotations

from typing import Final

ANY_PORT: Final = ("PLAINTEXT://127.0.0.1:0",)
