"""Fields of forms and of addresses, and the errors for invalid ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from kafkalite.control.console.forms import Query, form_of
from kafkalite.control.request_body import MAX_BODY_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

FORM = "application/x-www-form-urlencoded"


def request(body: bytes, content_type: str = FORM) -> Request:
    async def receive() -> Mapping[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    headers = [(b"content-type", content_type.encode())]
    return Request({"type": "http", "method": "POST", "headers": headers}, receive)  # type: ignore[arg-type]  # as ASGI


def test_the_first_value_of_a_field_counts_and_empty_is_missing() -> None:
    query = Query([("a", "1"), ("a", "2"), ("b", "")])
    assert query.text("a") == "1"
    assert query.text("b", "x") == "x"
    assert query.optional("b") is None
    assert query.without_empty() == {"a": "1"}


@pytest.mark.parametrize("text", ["x", "-1", "1.5", "9" * 30, "11", "\u0661"])
def test_a_wrong_number_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="page must be a whole number from 0 to 10, not"):
        Query([("page", text)]).whole("page", 1, maximum=10)
    assert Query([("page", "")]).whole("page", 1) == 1


async def test_a_form_is_read() -> None:
    form = await form_of(request(b"key=%C3%A9+1&empty="))
    assert form.fields == {"key": "é 1", "empty": ""}


@pytest.mark.parametrize(
    ("body", "content_type", "status"),
    [
        (b"{}", "application/json", 415),
        (b"a=" + b"x" * MAX_BODY_BYTES, FORM, 413),
        (b"a=%ff", FORM, 400),
        (b"a=\xff", FORM, 400),
        (b"&".join([b"a=1"] * 1001), FORM, 413),
    ],
)
async def test_another_body_is_refused(body: bytes, content_type: str, status: int) -> None:
    with pytest.raises(HTTPException) as refused:
        await form_of(request(body, content_type))
    assert refused.value.status_code == status
