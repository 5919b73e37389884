"""`python -m tests.reference` writes the reference pages and the generated parts of others."""

from __future__ import annotations

from tests.reference.pages import write

write()
