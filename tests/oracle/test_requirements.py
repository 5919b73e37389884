"""Skips for missing programs, and failures for unavailable required clients."""

from __future__ import annotations

import pytest

from tests.oracle.requirements import (
    REQUIRE_CLIENTS,
    MissingProgramError,
    UnavailableError,
    program,
    required,
)


def test_a_missing_program_raises_an_error() -> None:
    with pytest.raises(MissingProgramError, match="no-such-program"):
        program("no-such-program")


@pytest.mark.parametrize("is_required", ["0", "1"])
def test_a_missing_program_skips_the_test(
    monkeypatch: pytest.MonkeyPatch, is_required: str
) -> None:
    monkeypatch.setenv(REQUIRE_CLIENTS, is_required)
    with pytest.raises(pytest.skip.Exception, match="no runtime"), required():
        raise MissingProgramError("no runtime")


def test_an_unavailable_dependency_skips_the_test_by_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(REQUIRE_CLIENTS, raising=False)
    with pytest.raises(pytest.skip.Exception, match="no registry"), required():
        raise UnavailableError("no registry")


def test_an_unavailable_dependency_fails_the_test_if_clients_are_required(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(REQUIRE_CLIENTS, "1")
    with pytest.raises(pytest.fail.Exception, match="no registry"), required():
        raise UnavailableError("no registry")
