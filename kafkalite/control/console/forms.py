"""Query: the fields of a form or of the query of an address, read with clear errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from kafkalite.config.typed_json import number_of, quote
from kafkalite.control.request_body import TOO_LARGE_MESSAGE, media_type, read_body

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from starlette.requests import Request

_FORM: Final = "application/x-www-form-urlencoded"
_MAX_FIELDS: Final = 1_000


class Query:
    """Fields with texts; an empty text is the same as a missing field."""

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        """Use the first value of each field."""
        self.fields: dict[str, str] = {}
        for name, value in pairs:
            self.fields.setdefault(name, value)

    def text(self, name: str, default: str = "") -> str:
        """Return the text of a field."""
        return self.fields.get(name) or default

    def optional(self, name: str) -> str | None:
        """Return the text of a field, None if it is missing."""
        return self.fields.get(name) or None

    def whole(self, name: str, default: int, *, minimum: int = 0, maximum: int = 2**53) -> int:
        """Return the number in a field; raises ValueError for another text."""
        text = self.text(name)
        if not text:
            return default
        value = number_of(text)
        if not isinstance(value, int) or not minimum <= value <= maximum:
            raise ValueError(
                f"{name} must be a whole number from {minimum} to {maximum}, not {quote(text)}"
            )
        return value

    def without_empty(self) -> Mapping[str, str]:
        """Return the fields that have a text."""
        return {name: value for name, value in self.fields.items() if value}


async def form_of(request: Request) -> Query:
    """Return the fields of a form that a browser sent; raises HTTPException for another body."""
    if media_type(request) != _FORM:
        raise HTTPException(415, f"the body must be a form: send Content-Type: {_FORM}")
    try:
        body = await read_body(request)
    except ClientDisconnect as disconnect:
        raise HTTPException(
            400, "the client disconnected before the end of the form"
        ) from disconnect
    if body is None:
        raise HTTPException(413, TOO_LARGE_MESSAGE)
    if body.count(b"&") >= _MAX_FIELDS:
        raise HTTPException(413, f"the form has more than {_MAX_FIELDS:,} fields")
    try:
        return Query(parse_qsl(body.decode(), keep_blank_values=True, errors="strict"))
    except ValueError as error:
        raise HTTPException(400, "the body is not a form in UTF-8") from error
