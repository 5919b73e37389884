"""Numbers of examples: the profile "long" tries ten times as many as the profile "quick"."""

from __future__ import annotations

from hypothesis import settings

_QUICK_EXAMPLES = 100


def examples(count: int) -> int:
    """Return how many examples to try where `count` are tried by the profile "quick"."""
    profile = settings.default
    assert profile is not None, "conftest.py loads one"
    return count * profile.max_examples // _QUICK_EXAMPLES
