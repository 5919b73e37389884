"""ShareGroups: what a heartbeat, a silence or a change of topics means to a group (KIP-932).

One heartbeat is at most six steps, each of them skipped when nothing asks for it: the member's own
words, the group epoch, the target assignment, the member's step to it, share state for partitions
that have none, the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from kafkalite.coordinator.contract import CoordinatorResult, SetTimer
from kafkalite.groups.events import LEFT, SILENT, moved_on
from kafkalite.groups.share import offsets, records
from kafkalite.groups.share.admission import (
    admit,
    check_room,
    find_group,
    find_or_found_group,
    unknown_member,
)
from kafkalite.groups.share.beat import ShareBeat, ShareSurroundings, subscribed_topics
from kafkalite.groups.share.describe import describe_group
from kafkalite.groups.share.events import gone
from kafkalite.groups.share.group import ShareGroup
from kafkalite.groups.share.intents import InitializeShareState, ShareStart
from kafkalite.groups.share.member import JOIN_EPOCH
from kafkalite.groups.share.replay import ShareGroupReplay
from kafkalite.groups.share.sessions import ShareSessionExpiry, ShareSessions
from kafkalite.groups.share.settings import ShareSettingsBook
from kafkalite.groups.share.steady import SteadyShareAnswers
from kafkalite.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from kafkalite.coordinator.contract import TimerChange
    from kafkalite.groups.consumer.beat import Client
    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.events import Going
    from kafkalite.groups.group import GroupId, MemberId, Record
    from kafkalite.groups.share.offsets import Doomed
    from kafkalite.metadata.image import MetadataDelta
    from kafkalite.protocol.messages.share_group_describe import ShareGroupDescribeResponse
    from kafkalite.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

R = TypeVar("R")

_FORGETFUL_AT_ONCE = 10_000
_RECORD_SIZE = 20
_NAMES_AT_ONCE = 200_000
"""Topics and partitions that one decision writes down, a record counting for 20 of them, and
characters in the names of groups.

It is one batch, which has a limit of size; whatever is more takes another one.
"""


@dataclass(frozen=True, slots=True)
class ForgetShareTopics:
    """Topics were deleted, and share groups may still speak of them."""

    topic_ids: tuple[bytes, ...]


class ShareGroups:
    """The share groups of one shard: deciders, replayers and timers."""

    def __init__(self, directory: GroupDirectory) -> None:
        self._directory = directory
        self._settings = ShareSettingsBook(directory.config)
        self._sessions = ShareSessions()
        self._surroundings = ShareSurroundings(directory, self._settings)
        self._steady = SteadyShareAnswers(self._surroundings, self._sessions)
        self.replayers = ShareGroupReplay(directory).replayers()
        self.timers: Mapping[type, Callable[[Any, int], CoordinatorResult[None]]] = {
            ShareSessionExpiry: self.expire_session,
            ForgetShareTopics: self.forget_topics,
        }

    def steady(
        self, request: ShareGroupHeartbeatRequest, client: Client, now_ms: int
    ) -> ShareGroupHeartbeatResponse | None:
        """Answer a member that has nothing new to say nor to hear; None: ask `heartbeat`."""
        group = self._directory.groups.get(request.group_id)
        if type(group) is not ShareGroup:
            return None
        return self._steady.to(group, request, client, now_ms)

    def heartbeat(
        self, request: ShareGroupHeartbeatRequest, client: Client, now_ms: int
    ) -> CoordinatorResult[ShareGroupHeartbeatResponse]:
        """Let a member join, stay, move on or leave.

        KafkaError for every refusal; the request is one whose form was checked.
        """
        if request.member_epoch < JOIN_EPOCH:
            return self._leave(request)
        group = find_or_found_group(
            self._directory.groups,
            request.group_id,
            is_founding=request.member_epoch == JOIN_EPOCH,
        )
        check_room(group, request.member_id, self._settings.of(group).max_size)
        admitted = admit(group, request.member_id, request.member_epoch)
        beat = ShareBeat(self._surroundings, group, request, admitted, now_ms)
        beat.hear(request, client)
        beat.move_group_epoch()
        beat.compute_target()
        beat.reconcile()
        beat.ask_for_share_state()
        self._steady.settled(beat)
        return CoordinatorResult(
            response=beat.answer(request),
            records=beat.records,
            timers=self._timers_after(beat),
            events=beat.events,
            intents=beat.intents,
        )

    def _timers_after(self, beat: ShareBeat) -> list[TimerChange]:
        group_id, member_id = beat.group.group_id, beat.member_id
        deadline_ms = beat.now_ms + self._settings.of(beat.group).session_timeout_ms
        # A join sets the timer whatever is remembered of it: an earlier join may have failed to
        # reach the log, and its timers with it.
        if not beat.is_join and self._sessions.prolong(group_id, member_id, deadline_ms):
            return []
        return [self._sessions.start(group_id, member_id, deadline_ms)]

    def _leave(
        self, request: ShareGroupHeartbeatRequest
    ) -> CoordinatorResult[ShareGroupHeartbeatResponse]:
        group = find_group(self._directory.groups, request.group_id)
        if request.member_id not in group.members:
            raise unknown_member(group, request.member_id)
        return self._remove(
            group,
            request.member_id,
            ShareGroupHeartbeatResponse(
                member_id=request.member_id, member_epoch=request.member_epoch
            ),
            LEFT,
        )

    def _remove(
        self, group: ShareGroup, member_id: MemberId, response: R, going: Going
    ) -> CoordinatorResult[R]:
        """Take a member out of the group and move the group on without it."""
        group_id, epoch = group.group_id, group.epoch + 1
        remaining = [member for each, member in group.members.items() if each != member_id]
        topics_hash = self._directory.metadata_hash(subscribed_topics(remaining))
        event = gone(group, member_id, going)
        return CoordinatorResult(
            response=response,
            records=[
                *records.member_tombstones(group_id, member_id),
                records.group_epoch_record(group_id, epoch, topics_hash),
            ],
            timers=[self._sessions.forget(group_id, member_id)],
            events=[event, moved_on(group_id, epoch, [event.text])],
        )

    def describe(self, group_id: GroupId) -> ShareGroupDescribeResponse.DescribedGroup:
        """Describe a group; KafkaError(GROUP_ID_NOT_FOUND) when there is none of this type."""
        directory = self._directory
        return describe_group(find_group(directory.groups, group_id), directory.image)

    # Share state, and what administrators do to it; `offsets` says what each of these means.

    def still_wanted(self, intent: InitializeShareState) -> InitializeShareState:
        """Return what is left of an intent: it may come late, twice, or after its group's end."""
        group = self._directory.groups.get(intent.group_id)
        if not isinstance(group, ShareGroup):
            return intent._replace(partitions=())
        initialized = group.share_partitions().initialized
        return intent._replace(
            partitions=tuple(
                start
                for start in intent.partitions
                if start.topic_id in self._directory.image.topics_by_id
                and (
                    start.topic_id not in initialized
                    or start.partition not in initialized[start.topic_id].partitions
                )
            )
        )

    def state_initialized(
        self, intent: InitializeShareState, now_ms: int
    ) -> CoordinatorResult[None]:
        """Take note that an intent was carried out: its partitions may be assigned from now on."""
        del now_ms
        return self.offsets_initialized(intent.group_id, intent.partitions)

    def offsets_initialized(
        self, group_id: GroupId, starts: Sequence[ShareStart]
    ) -> CoordinatorResult[None]:
        """Take note that share partitions start where they should, if the group is still there."""
        group = self._directory.groups.get(group_id)
        if not isinstance(group, ShareGroup):
            return offsets.NOTHING
        noted = offsets.initialized(group, starts, self._directory.image)
        if not any(group.share_partitions().initializing.keys() - {s.topic_id for s in starts}):
            self._surroundings.answered(group_id)
        return noted

    def initialized(self, group_id: GroupId) -> Mapping[bytes, list[int]]:
        """Return the partitions that have a share state, of a group that may not exist."""
        group = self._directory.groups.get(group_id)
        if not isinstance(group, ShareGroup):
            return {}
        topics = group.share_partitions().initialized
        return {topic_id: sorted(named.partitions) for topic_id, named in topics.items()}

    def alter_offsets(
        self, group_id: GroupId, wanted: Mapping[bytes, Mapping[int, int]]
    ) -> CoordinatorResult[tuple[ShareStart, ...]]:
        """Begin to move where a group reads: topic id → partition → offset."""
        group = find_or_found_group(self._directory.groups, group_id, is_founding=True)
        return offsets.alter(group, wanted, self._directory.image)

    def begin_deleting_offsets(
        self, group_id: GroupId, topics: Iterable[str]
    ) -> CoordinatorResult[Doomed]:
        """Begin to forget where a group reads these topics."""
        group = find_group(self._directory.groups, group_id)
        return offsets.begin_deleting(group, topics, self._directory.image)

    def offsets_deleted(
        self, group_id: GroupId, topic_ids: Collection[bytes]
    ) -> CoordinatorResult[None]:
        """Take note that the share state of these topics is gone."""
        return offsets.deleted(find_group(self._directory.groups, group_id), topic_ids)

    def begin_deleting_group(
        self, group_id: GroupId
    ) -> CoordinatorResult[Mapping[bytes, list[int]]]:
        """Begin to delete a group: return the partitions whose share state has to go first."""
        group = find_group(self._directory.groups, group_id)
        self._surroundings.answered(group_id)
        return offsets.begin_deleting_all(group, self._directory.image)

    # Timers.

    def expire_session(self, event: ShareSessionExpiry, now_ms: int) -> CoordinatorResult[None]:
        """Remove a member that has been silent for too long."""
        if (timer := self._sessions.still_running(event, now_ms)) is not None:
            return CoordinatorResult(response=None, timers=(timer,))
        group = self._directory.groups.get(event.group_id)
        member_id = event.member_id
        if not isinstance(group, ShareGroup) or member_id not in group.members:
            return offsets.NOTHING
        return self._remove(group, member_id, None, SILENT)

    def forget_topics(self, event: ForgetShareTopics, now_ms: int) -> CoordinatorResult[None]:
        """Let every group's share partitions do without topics that are no more, some at a time."""
        written: list[Record] = []
        again: list[SetTimer] = []
        size = names = 0
        for group in self._groups():
            partitions = group.share_partitions()
            if partitions.topic_ids().isdisjoint(event.topic_ids):
                continue
            if size >= _FORGETFUL_AT_ONCE or names >= _NAMES_AT_ONCE:
                again.append(SetTimer(event, now_ms, event))
                break
            left = partitions.forgotten(event.topic_ids)
            written.append(records.partitions_record(group.group_id, left))
            size += _RECORD_SIZE + left.size()
            names += len(group.group_id)
        return CoordinatorResult(response=None, records=written, timers=again)

    def forget_later(self, changes: MetadataDelta, now_ms: int) -> SetTimer:
        """Return the timer by which forgetting is taken up again."""
        event = _deleted(changes)
        return SetTimer(event, now_ms, event)

    # The world.

    def on_loaded(self, now_ms: int) -> CoordinatorResult[None]:
        """Give every member a new session, and have share state made that was under way."""
        timers: list[TimerChange] = []
        intents: list[InitializeShareState] = []
        for group in self._groups():
            timeout_ms = self._settings.of(group).session_timeout_ms
            timers.extend(
                self._sessions.start(group.group_id, member_id, now_ms + timeout_ms)
                for member_id in group.members
            )
            unfinished = group.share_partitions().unfinished()
            if unfinished:
                self._surroundings.asked(group.group_id, unfinished, now_ms)
                intents.append(_taken_up(group, unfinished))
        return CoordinatorResult(response=None, timers=timers, intents=intents)

    def on_image(self, changes: MetadataDelta, now_ms: int) -> CoordinatorResult[None]:
        """Take note of topics and settings that changed; heartbeats draw most consequences."""
        if changes.configs:
            self._settings.forget()
        if changes.created or changes.deleted or changes.changed or changes.brokers_changed:
            self._surroundings.topics_changed()
        if not changes.deleted:
            return offsets.NOTHING
        return self.forget_topics(_deleted(changes), now_ms)

    def _groups(self) -> Iterator[ShareGroup]:
        return (each for each in self._directory.groups.values() if isinstance(each, ShareGroup))


def _deleted(changes: MetadataDelta) -> ForgetShareTopics:
    return ForgetShareTopics(tuple(topic.topic_id for topic in changes.deleted))


def _taken_up(group: ShareGroup, unfinished: Mapping[bytes, list[int]]) -> InitializeShareState:
    return InitializeShareState(
        group.group_id,
        tuple(
            ShareStart(topic_id, partition, group.epoch)
            for topic_id, partitions in sorted(unfinished.items())
            for partition in partitions
        ),
    )
