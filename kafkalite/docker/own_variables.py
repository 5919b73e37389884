"""The image's own variables KAFKALITE_*, as options of `kafkalite serve`."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Final

from kafkalite.config.options import ADVERTISE, LISTEN, OPTIONS, VARIABLE_PREFIX
from kafkalite.docker.membership import PRIMARY, SECRET

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkalite.config.options import Option

INSIDE_PORT: Final = 29092
DEFAULT_LISTEN: Final = f"OUTSIDE://0.0.0.0:9092,INSIDE://0.0.0.0:{INSIDE_PORT}"


def option_values(option: Option, environment: Mapping[str, str]) -> list[str]:
    """Return the values that the variable of an option holds."""
    if option.variable is None:
        return []
    text = environment.get(option.variable.name, "")
    separator = option.variable.separator
    if separator is None:
        return [text] if text else []
    return [value.strip() for value in re.split(separator, text) if value.strip()]


def listener_options(environment: Mapping[str, str], hostname: str) -> tuple[list[str], list[str]]:
    """Return the values of `--listen` and of `--advertise`.

    By default there is one listener for the host and one for other containers. The defaults of
    `--advertise` are for the default listeners only.
    """
    listen, advertise = option_values(LISTEN, environment), option_values(ADVERTISE, environment)
    if not listen and not advertise:
        advertise = ["OUTSIDE://localhost:9092", f"INSIDE://{hostname}:{INSIDE_PORT}"]
    return listen or DEFAULT_LISTEN.split(","), advertise


def own_arguments(
    environment: Mapping[str, str], hostname: str, *, has_listeners: bool = False
) -> list[str]:
    """Return the arguments of `kafkalite serve` for the variables KAFKALITE_*.

    There are no default listeners if the broker has listeners from other variables.
    """
    listen, advertise = ([], []) if has_listeners else listener_options(environment, hostname)
    addresses = {LISTEN: listen, ADVERTISE: advertise}
    repeatable_first = sorted(OPTIONS, key=lambda option: not option.is_repeatable)
    return [
        f"{option.flag}={value}"
        for option in repeatable_first
        for value in addresses.get(option) or option_values(option, environment)
    ]


def variables() -> Iterator[str]:
    """Yield the names of all variables."""
    for option in OPTIONS:
        if option.variable is not None:
            yield option.variable.name


def find_misspelt_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return unknown name → the known variable that it resembles.

    Other names with the same prefix are not reported: Kubernetes adds KAFKALITE_PORT and similar
    variables to every container of a namespace that has a service named kafkalite.
    """
    names = (*variables(), PRIMARY, SECRET)
    known = {name.removeprefix(VARIABLE_PREFIX): name for name in names}
    suggestions = {}
    for name in environment:
        if name.startswith(VARIABLE_PREFIX) and name.removeprefix(VARIABLE_PREFIX) not in known:
            matches = difflib.get_close_matches(
                name.removeprefix(VARIABLE_PREFIX), known, n=1, cutoff=0.8
            )
            if matches:
                suggestions[name] = known[matches[0]]
    return suggestions
