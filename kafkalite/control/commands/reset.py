"""The command that resets a broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from kafkalite.config.typed_json import About, check_types
from kafkalite.control.command_table import CommandError, Family, Row, Words
from kafkalite.control.turns import answer_pieces
from kafkalite.ports.texts import count_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.server.broker import Broker


_MAX_PATTERN_LENGTH: Final = 249
"""The event loop waits while a pattern is compiled; it is the maximum length of a topic's name."""


@dataclass(frozen=True, slots=True)
class ResetAnswer:
    """What a reset has deleted and created."""

    deleted_topics: Annotated[tuple[str, ...], About("Topics that were deleted, sorted.")]
    created_topics: Annotated[
        tuple[str, ...], About("Topics of the start that were created again, empty.")
    ]
    deleted_groups: Annotated[tuple[str, ...], About("Groups that were deleted, sorted.")]
    deleted_transactional_ids: Annotated[
        tuple[str, ...], About("Transactional ids that were removed, sorted.")
    ]


@dataclass(frozen=True, slots=True)
class ResetBroker:
    """Reset the broker to the state after its start, while clients stay connected.

    Topics, groups and transactional ids are deleted, faults are removed, stopped nodes are started,
    and what clients have changed in configurations, quotas, ACLs and users is undone. Topics of the
    start are created again, empty. With `topics` or `groups`, only those whose names match are
    deleted.
    """

    topics: Annotated[
        str | None, About("pattern of topics, such as orders-*", metavar="PATTERN")
    ] = None
    groups: Annotated[str | None, About("pattern of groups, such as shop-*", metavar="PATTERN")] = (
        None
    )

    def __post_init__(self) -> None:
        check_types(self)
        for name in ("topics", "groups"):
            if len(getattr(self, name) or "") > _MAX_PATTERN_LENGTH:
                raise CommandError(
                    f"the pattern of {name} has more than {_MAX_PATTERN_LENGTH} characters"
                )

    async def perform(self, broker: Broker) -> ResetAnswer:
        """Reset the broker; raises CommandError if that is impossible."""
        from kafkalite.control.broker_reset import reset  # noqa: PLC0415 - a shell needs no broker

        return ResetAnswer(*await reset(broker, self.topics, self.groups))


def _lines(answer: ResetAnswer, given: Mapping[str, object]) -> list[str]:
    del given
    deleted = (
        count_text(len(answer.deleted_topics), "topic"),
        count_text(len(answer.deleted_groups), "group"),
        count_text(len(answer.deleted_transactional_ids), "transactional id"),
    )
    created = count_text(len(answer.created_topics), "topic")
    return [f"deleted {', '.join(deleted)}; created {created}"]


_ABOUT = "Reset a running broker to the state after its start."

COMMANDS = Family(
    (
        Row(
            ResetBroker,
            ResetAnswer,
            "POST",
            "/v1/reset",
            (Words("reset"),),
            _lines,
            example={"topics": "orders-*", "groups": "shop-*"},
            pieces=answer_pieces,
        ),
    ),
    {"reset": _ABOUT},
)
