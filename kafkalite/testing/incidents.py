"""BrokerIncidents: what happens to members, producers and coordinators of a broker under test."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from kafkalite.control.command_table import Command
    from kafkalite.control.commands.incidents import (
        BegunRebalance,
        ExpelledMember,
        FencedProducer,
        ReloadedCoordinator,
    )

T = TypeVar("T")


class BrokerIncidents:
    """The methods of `Broker` that cause incidents; usable from any thread but the broker's.

    When a method returns, the change is in the logs, and the answers that it triggered have been
    sent.
    """

    def _perform(self, command: Command[T], /) -> T:
        raise NotImplementedError

    def expel(self, member: str, group: str | None = None) -> ExpelledMember:
        """Remove a member from its group, as if its session had ended; the others rebalance.

        `group` is needed only if several groups have a member with this id. Raises ValueError if
        there is no such member.
        """
        from kafkalite.control.commands.incidents import ExpelMember  # noqa: PLC0415 - rarely used

        return self._perform(ExpelMember(member, group))

    def fence(self, transactional_id: str) -> FencedProducer:
        """Fence the producer of a transactional id; an open transaction is aborted.

        The id has a later epoch, which no client has. Raises ValueError for an unknown id.
        """
        from kafkalite.control.commands.incidents import FenceProducer  # noqa: PLC0415 - as above

        return self._perform(FenceProducer(transactional_id))

    def rebalance(self, group: str) -> BegunRebalance:
        """Begin a rebalance of a group, unless one has begun.

        Raises ValueError for an unknown group, and for one without members.
        """
        from kafkalite.control.commands.incidents import RebalanceGroup  # noqa: PLC0415 - as above

        return self._perform(RebalanceGroup(group))

    def reload(self, coordinator: str, id: str | None = None) -> ReloadedCoordinator:  # noqa: A002 - as in JSON
        """Load the "group", "transaction" or "share" coordinator again from its log.

        `id` selects the part with a group or a transactional id. What is not in the log is lost,
        such as a rebalance of a classic group. Raises ValueError for an id without coordinator.
        """
        from kafkalite.control.commands.incidents import ReloadCoordinator  # noqa: PLC0415 - as above

        return self._perform(ReloadCoordinator(coordinator, id))
