"""Drives a broker of another process, by its control endpoint."""

from __future__ import annotations

import json
from http.client import HTTPException
from typing import TYPE_CHECKING, cast
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import ProxyHandler, Request, build_opener

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.control.http import ClockShape, ExplanationShape

_TIMEOUT_S = 60.0
"""A long jump takes its time; a broker that is not there is found out at once."""


class ControlError(Exception):
    """A broker that refused or is not there; the text is one line for people."""


class ControlClient:
    """The commands that a broker takes over HTTP; each raises ControlError when it does not."""

    def __init__(self, url: str) -> None:
        self._url = url
        # Straight to the broker: a proxy leads to the outside, where ours is not.
        self._opener = build_opener(ProxyHandler({}))

    def clock(self) -> ClockShape:
        """Return the time, and how it goes."""
        return cast("ClockShape", self._ask("/v1/clock"))

    def drive(self, asked: Mapping[str, str | float]) -> ClockShape:
        """Ask something of the clock, in the words of POST /v1/clock, and return the time then."""
        return cast("ClockShape", self._ask("/v1/clock", json.dumps(asked).encode()))

    def explain(
        self, group: str | None, limit: int | None, transactional_id: str | None = None
    ) -> ExplanationShape:
        """Return what befell a group or a transactional id, or all of them."""
        asked = {"group": group, "transactional_id": transactional_id, "limit": limit}
        query = urlencode({name: value for name, value in asked.items() if value is not None})
        return cast("ExplanationShape", self._ask(f"/v1/explain?{query}"))

    def _ask(self, path: str, body: bytes | None = None) -> object:
        request = Request(self._url + path, body, {"Content-Type": "application/json"})  # noqa: S310 - http is all that control_url lets through
        try:
            with self._opener.open(request, timeout=_TIMEOUT_S) as answer:
                return json.load(answer)
        except HTTPError as refusal:
            raise ControlError(_sentence(refusal)) from refusal
        except (OSError, HTTPException, ValueError) as error:
            reason = error.reason if isinstance(error, URLError) else error
            told = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
            raise ControlError(
                f"no broker can be driven at {self._url}: {told.lower()} "
                "(is it served with --control?)"
            ) from error


def _sentence(refusal: HTTPError) -> str:
    try:
        told = json.load(refusal)["error"]
    except (OSError, HTTPException, ValueError, LookupError, TypeError):
        return f"{refusal.url} answers {refusal.code} {refusal.reason}: no kafkalite is there"
    return str(told)
