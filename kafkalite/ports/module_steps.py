"""ModuleSteps: modules that are imported in steps, between which other requests are served.

Imported at once, the modules of a coordinator would delay the other clients by up to half of the
time of a start.
"""

from __future__ import annotations

from importlib import import_module
from sys import modules

from kafkalite.ports import turns


class ModuleSteps:
    """Modules of this package, each after those that it imports."""

    def __init__(self, *names: str) -> None:
        """Create the steps from names without the package `kafkalite`."""
        self.names = tuple(f"kafkalite.{name}" for name in names)
        self._are_loaded = False

    def are_loaded(self) -> bool:
        """Return whether all modules have been imported."""
        if not self._are_loaded:
            self._are_loaded = all(name in modules for name in self.names)
        return self._are_loaded

    def load(self) -> None:
        """Import the modules, unless they are loaded, with a pause after each step.

        The first step and what follows the last one begin with a new turn: the API itself may have
        been imported in this one.
        """
        if not self.are_loaded():
            turns.end_turn()
            for name in self.names:
                import_module(name)
                turns.pause()
            turns.end_turn()
