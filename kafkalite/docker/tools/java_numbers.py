"""Numbers in the form in which Java prints them."""

from __future__ import annotations

from typing import Final

_SMALLEST_PLAIN: Final = 1e-3
_FIRST_SCIENTIFIC: Final = 1e7


def java_double(number: float) -> str:
    """Return a number as Java's `Double.toString` does, such as `1024.0` or `1.0E7`."""
    if not number or _SMALLEST_PLAIN <= abs(number) < _FIRST_SCIENTIFIC:
        text = repr(number)
        return text if "e" not in text else f"{number:f}"
    mantissa, _, exponent = f"{number:e}".partition("e")
    digits = repr(number).replace("-", "").replace(".", "").partition("e")[0].strip("0") or "0"
    sign = "-" if mantissa.startswith("-") else ""
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{int(exponent)}"
