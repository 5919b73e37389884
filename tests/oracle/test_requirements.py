"""What a machine lacks is skipped; what it should have given counts when clients are required."""

from __future__ import annotations

import pytest

from tests.oracle.requirements import (
    REQUIRE_CLIENTS,
    LackingError,
    UnavailableError,
    program,
    required,
)


def test_a_program_that_is_not_there_is_lacking() -> None:
    with pytest.raises(LackingError, match="no-such-program"):
        program("no-such-program")


@pytest.mark.parametrize("is_required", ["0", "1"])
def test_what_is_lacking_is_always_skipped(
    monkeypatch: pytest.MonkeyPatch, is_required: str
) -> None:
    monkeypatch.setenv(REQUIRE_CLIENTS, is_required)
    with pytest.raises(pytest.skip.Exception, match="no runtime"), required():
        raise LackingError("no runtime")


def test_what_is_unavailable_is_skipped_on_a_users_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(REQUIRE_CLIENTS, raising=False)
    with pytest.raises(pytest.skip.Exception, match="no registry"), required():
        raise UnavailableError("no registry")


def test_what_is_unavailable_fails_where_clients_are_required(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(REQUIRE_CLIENTS, "1")
    with pytest.raises(pytest.fail.Exception, match="no registry"), required():
        raise UnavailableError("no registry")
