"""How users install the extras of kafkalite, for the texts of errors."""

from __future__ import annotations


def install_command(extra: str) -> str:
    """Return the commands that install an extra, from a package index and in a clone."""
    return f"pip install 'kafkalite[{extra}]', or pip install '.[{extra}]' in a clone of kafkalite"
