"""Target assignments: what each member should have at a group epoch."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kafkalite.groups.assignors.contract import GroupSpec, MemberSpec
from kafkalite.groups.assignors.table import ASSIGNORS
from kafkalite.groups.consumer.group import topics_of
from kafkalite.groups.consumer.topics import topic_ids
from kafkalite.groups.replaying import NEVER_ASSIGNED_MS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalite.groups.assignors.contract import Assignment
    from kafkalite.groups.consumer.member import MemberMetadata
    from kafkalite.groups.consumer.regex import ResolvedRegex
    from kafkalite.groups.group import MemberId
    from kafkalite.metadata.image import MetadataImage


def may_assign_now(last_timestamp_ms: int, interval_ms: int, now_ms: int) -> bool:
    """Whether the assignor may run again, so soon after it did (KIP-1263).

    Nothing is scheduled when it may not: the next heartbeat after the interval will see to it.
    An interval of zero helps out of a clock that was set back.
    """
    if NEVER_ASSIGNED_MS in (last_timestamp_ms, interval_ms):
        return True
    return now_ms >= last_timestamp_ms + interval_ms


def preferred_assignor(members: Iterable[MemberMetadata], default: str) -> str:
    """Return the assignor most members ask for; the default when none asks for any.

    Kafka leaves ties open. Here the first by name wins. An assignor that we do not have counts for
    nothing: the log may come from a broker that had it.
    """
    votes = Counter(
        m.server_assignor
        for m in members
        if m.server_assignor is not None and m.server_assignor in ASSIGNORS
    )
    return min(votes, key=lambda name: (-votes[name], name), default=default)


def is_homogeneous(members: Mapping[MemberId, MemberMetadata]) -> bool:
    """Whether all subscribe alike: to the same names, or all by one expression and no names."""
    names = {member.topic_names for member in members.values()}
    regexes = {member.topic_regex or "" for member in members.values()}
    return len(names) <= 1 and len(regexes) <= 1 and (regexes <= {""} or names <= {frozenset()})


def compute_target(
    assignor: str,
    members: Mapping[MemberId, MemberMetadata],
    previous: Mapping[MemberId, Assignment],
    resolved_regexes: Mapping[str, ResolvedRegex],
    image: MetadataImage,
) -> Mapping[MemberId, Assignment]:
    """Run an assignor over these members; stickiness is to `previous`."""
    # Members mostly subscribe alike, so each subscription is looked up in the image but once.
    ids_of: dict[frozenset[str], frozenset[bytes]] = {}
    specs: dict[MemberId, MemberSpec] = {}
    for member_id, member in members.items():
        names = topics_of(member, resolved_regexes)
        if names not in ids_of:
            ids_of[names] = topic_ids(names, image)
        specs[member_id] = MemberSpec(
            instance_id=member.instance_id,
            topic_ids=ids_of[names],
            previous=previous.get(member_id, {}),
        )
    subscribed = frozenset[bytes]().union(*ids_of.values())
    return ASSIGNORS[assignor](
        GroupSpec(
            members=specs,
            partition_counts={
                topic_id: len(image.topics_by_id[topic_id].partitions) for topic_id in subscribed
            },
            is_homogeneous=is_homogeneous(members),
        )
    )
