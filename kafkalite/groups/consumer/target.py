"""Target assignments of consumer groups."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kafkalite.groups.assignors.contract import GroupSpec, MemberSpec
from kafkalite.groups.assignors.table import ASSIGNORS
from kafkalite.groups.consumer.group import topics_of
from kafkalite.groups.modern.topics import topic_ids

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalite.groups.assignors.contract import Assignment
    from kafkalite.groups.consumer.member import MemberMetadata
    from kafkalite.groups.consumer.regex import ResolvedRegex
    from kafkalite.groups.group import MemberId
    from kafkalite.metadata.image import MetadataImage


def preferred_assignor(members: Iterable[MemberMetadata], default: str) -> str:
    """Return the assignor that most members request, or the default.

    In a tie the first by name wins; in Kafka the result is undefined. Unknown assignors are
    ignored: the log may come from a broker with other assignors.
    """
    votes = Counter(
        m.server_assignor
        for m in members
        if m.server_assignor is not None and m.server_assignor in ASSIGNORS
    )
    return min(votes, key=lambda name: (-votes[name], name), default=default)


def is_homogeneous(members: Mapping[MemberId, MemberMetadata]) -> bool:
    """Whether all members have the same topic names, or one expression and no names."""
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
    """Run an assignor on these members; `previous` has their previous targets."""
    # Most members have the same subscription, so each one is looked up only once.
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
