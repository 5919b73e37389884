"""ControlRoute: a path of the control API."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from starlette.requests import Request


class ControlRoute(NamedTuple):
    """A path of the control API, its methods, and whether a request needs the token."""

    path: str
    handler: Callable[[Request], Awaitable[object]]
    methods: Sequence[str] = ("GET",)
    needs_token: bool = True
