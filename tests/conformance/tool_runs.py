"""Kafka's tools, run with the two brokers of a comparison."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING

from tests.kafka_tools.sides import JavaSide, placeholders

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.kafka_tools.case import Case
    from tests.kafka_tools.sides import Result


@contextmanager
def tool_sides(addresses: Sequence[tuple[str, str]]) -> Iterator[list[JavaSide]]:
    """Start a Java process for each broker; an address is that of a broker and its controller."""
    with ExitStack() as running:
        yield [
            running.enter_context(closing(JavaSide(placeholders(bootstrap, controller))))
            for bootstrap, controller in addresses
        ]


def run_with_each(sides: Sequence[JavaSide], case: Case) -> list[Result | None]:
    """Run a tool with all brokers at the same time."""
    with ThreadPoolExecutor(len(sides)) as pool:
        return list(pool.map(lambda side: side.perform(case), sides))
