"""Ranges of versions."""

import pytest

from kafkalite.protocol.versions import Versions


@pytest.mark.parametrize("text", ["0", "3", "0-7", "9+", "0+"])
def test_range_is_printed_as_it_was_parsed(text: str) -> None:
    assert str(Versions.parse(text)) == text


@pytest.mark.parametrize("text", ["", "-", "1-", "7-3", "none", "-1", "1+2"])
def test_invalid_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        Versions.parse(text)


def test_both_ends_are_included() -> None:
    versions = Versions(2, 4)
    assert [version for version in range(7) if version in versions] == [2, 3, 4]


def test_an_open_range_has_no_end() -> None:
    assert 32767 in Versions(9)
    assert 8 not in Versions(9)


def test_overlap_of_version_ranges_is_their_intersection() -> None:
    assert Versions(0, 5).overlap(Versions(3)) == Versions(3, 5)
    assert Versions(0, 2).overlap(Versions(3)) is None


def test_within_yields_the_versions_of_both_ranges() -> None:
    assert list(Versions(1).within(Versions(0, 3))) == [1, 2, 3]
    assert list(Versions(5).within(Versions(0, 3))) == []
