"""ProfileStep: refuses what an emulated service refuses, by the rows of its profile.

Each refusal has its row and the source of the row in its facts, so `explain` shows both. Topics and
resources of one request are refused one by one. Calls between nodes are not restricted.
"""

# ruff: noqa: ANN401 - requests and responses of any API
from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn

from kafkalite.config import profiles
from kafkalite.config.profiles import Kind
from kafkalite.gateway.refusals import MAX_REPORTED, report_refusal, report_refusal_of_client
from kafkalite.gateway.steps import DisconnectError, ImmediateStep
from kafkalite.metadata.configs import AlterOperation
from kafkalite.metadata.creation import BROKER_DEFAULT
from kafkalite.metadata.image import ResourceType
from kafkalite.ports.turns import in_steps
from kafkalite.protocol import catalogue
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.api_names import known_api_name, not_served_message
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.message import with_fields
from kafkalite.protocol.rows import split
from kafkalite.storage.batch import COMPRESSION_MASK, HEADER_SIZE
from kafkalite.storage.compression import CODEC_NUMBERS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from kafkalite.config.profiles import Profile, Row
    from kafkalite.config.releases import Release
    from kafkalite.gateway.api import Api
    from kafkalite.gateway.call import Call
    from kafkalite.gateway.steps import Handler

    # (call, request) → the request as it is passed to the handler.
    _Check = Callable[[Call, Any], Any]
    # Profile and call → row → the row as it is passed to the handler.
    _RowCheck = Callable[["ProfileGuard", Call], Callable[[Any], Any]]

RULE: Final = "vendor profile"
"""The `rule` in the facts of a refusal by a profile."""

_CODEC_POSITION: Final = 22
"""The position of the compression codec in a batch."""


def reason_not_served(profile: Profile, key: int) -> str:
    """Return the row of an API that a service does not serve in each version; empty without one."""
    name = known_api_name(key)
    rows = {row.subject: row for row in profile.of_kind(Kind.API)}
    row = rows.get(name or "") or rows.get(profiles.OTHERS)
    return "" if row is None else f"{_row_text(profile, row)}, see {row.source.url}"


def _row_text(profile: Profile, row: Row) -> str:
    return f'row "{row}" of the profile {profile.name}'


class ProfileStep(ImmediateStep):
    """The step that refuses the calls, and the parts of calls, that a service refuses."""

    __slots__ = ("_internal_apis", "_profile", "_settings")

    def __init__(self, release: Release) -> None:
        """`release` must have a profile."""
        assert release.profile is not None
        self._profile = release.profile
        self._internal_apis = release.internal_apis
        self._settings = TopicSettings(release.profile)

    def wrap(self, api: Api, version: int, handler: Handler) -> Handler:
        """Return a handler that checks the rows and then calls `handler`; see `Step`."""
        del version
        guard = ProfileGuard(self._profile, self._settings, api)
        check = self._check_of(guard)
        if check is not None:
            return lambda call, request: handler(
                call, request if call.sender is not None else check(call, request)
            )
        rows_check = _ROW_CHECKS.get(api.name)
        if rows_check is None:
            return handler
        return lambda call, request: (
            handler(call, request)
            if call.sender is not None
            else guard.serve_allowed(call, request, rows_check(guard, call), handler)
        )

    def _check_of(self, guard: ProfileGuard) -> _Check | None:
        """Return the check of whole requests of an API, if there is one."""
        api = guard.api
        if api.name in self._internal_apis:
            reason = f"{not_served_message(api.key)}: {reason_not_served(self._profile, api.key)}"
            return partial(_raise, partial(DisconnectError, reason))
        row = self._profile.refusal(api.name)
        if row is not None:
            return partial(_raise, partial(guard.error, row))
        check = _CHECKS.get(api.name)
        return None if check is None else check(guard)


def _raise(new_error: Callable[[], Exception], call: Call, request: Any) -> NoReturn:
    """Raise the error by which each request of an API is refused."""
    del call, request
    raise new_error()


class ProfileGuard:
    """The rows for one API."""

    __slots__ = ("api", "profile", "settings")

    def __init__(self, profile: Profile, settings: TopicSettings, api: Api) -> None:
        self.profile = profile
        self.settings = settings
        self.api = api

    def error(
        self, row: Row, message: str = "", *, code: ErrorCode | None = None, **values: str
    ) -> KafkaError:
        """Return the refusal by a row, with this message if the row has none.

        `values` are for the placeholders in the message of the row.
        """
        code = ErrorCode[row.error] if code is None else code
        text = row.message.format_map(values) or message
        return KafkaError(
            code,
            text or None,
            facts={
                "rule": RULE,
                "profile": self.profile.name,
                "row": str(row),
                "source": f"{row.source.title}, {row.source.url}",
            },
            explanation=f"{self.api.name} refused: {text or code.message} ({code.name}); "
            f"{_row_text(self.profile, row)}",
        )

    def serve_allowed(
        self, call: Call, request: Any, check: Callable[[Any], Any], handler: Handler
    ) -> Any:
        """Return the answer of a handler for the allowed rows, and refusals of the others."""
        properties = catalogue.row(self.api.key).rows
        assert properties is not None
        allowed: list[Any] = []
        refused: list[tuple[Any, KafkaError]] = []

        def error_of(path: Sequence[Any]) -> KafkaError | None:
            try:
                allowed.append(check(path[0]))
            except KafkaError as error:
                refused.append((path[0], error.without_traceback()))
                return error
            return None

        divided = split(self.api.key, request, 0, error_of)
        for row, refusal in refused[:MAX_REPORTED]:
            self._report(call, request, row, refusal)
        served = with_fields(divided.request, **{properties.requested: allowed})
        return divided._replace(request=served).answer(partial(handler, call))

    def _report(self, call: Call, request: Any, entry: Any, refusal: KafkaError) -> None:
        """Report a refusal under the topic of an entry, or under the client for other resources."""
        api = self.api.name
        if getattr(entry, "resource_type", ResourceType.TOPIC) != ResourceType.TOPIC:
            report_refusal_of_client(call, api, refusal)
            return
        name: str = entry.name if hasattr(entry, "name") else entry.resource_name
        report_refusal(call, api, name, refusal, request, kind=Entity.TOPIC)


class TopicSettings:
    """The rows for topic settings of a profile, by the name of the setting."""

    __slots__ = ("_bounds", "_rows")

    def __init__(self, profile: Profile) -> None:
        self._rows: dict[str, Row] = {}
        self._bounds: dict[str, list[Row]] = {}
        for row in profile.of_kind(Kind.SETTING):
            if row.value.startswith((profiles.MAXIMUM, profiles.MINIMUM)):
                self._bounds.setdefault(row.subject, []).append(row)
            else:
                self._rows[row.subject] = row

    def checked(self, owner: Any, *, is_new: bool, guard: ProfileGuard) -> Any:
        """Return a topic in a request without the settings that have no effect.

        Raises KafkaError if clients may not set one of the others.
        """
        configs = [each for each in owner.configs if not self._is_ignored(each.name, is_new=is_new)]
        for each in configs:
            is_deleted = getattr(each, "config_operation", None) == AlterOperation.DELETE
            self._check(each.name, None if is_deleted else each.value, is_new=is_new, guard=guard)
        return with_fields(owner, configs=configs)

    def _is_ignored(self, name: str, *, is_new: bool) -> bool:
        row = self._access(name)
        return row is not None and (
            row.value == profiles.IGNORED or (is_new and row.value == profiles.IGNORED_AT_CREATION)
        )

    def _check(self, name: str, value: str | None, *, is_new: bool, guard: ProfileGuard) -> None:
        """Raise KafkaError if clients may not set a setting, or not to this value."""
        row = self._access(name)
        if row is not None and not (
            row.value == profiles.EDITABLE or (is_new and row.value == profiles.AT_CREATION)
        ):
            message = f"Topic setting '{name}' cannot be changed."
            raise guard.error(row, message, name=name, value=value or "")
        if value is None:
            return
        for bound in self._bounds.get(name, ()):
            _check_bound(bound, name, value, guard)

    def _access(self, name: str) -> Row | None:
        return self._rows.get(name) or self._rows.get(profiles.OTHERS)


def _check_bound(row: Row, name: str, text: str, guard: ProfileGuard) -> None:
    """Raise KafkaError if a number is out of bounds; a value of -1 means no limit."""
    try:
        value = int(text)
    except ValueError:
        return  # the broker refuses it
    if row.value.startswith(profiles.MAXIMUM):
        limit = int(row.value.removeprefix(profiles.MAXIMUM))
        is_valid, relation = 0 <= value <= limit, "higher than the maximum"
    else:
        limit = int(row.value.removeprefix(profiles.MINIMUM))
        is_valid, relation = value >= limit, "lower than the minimum"
    if not is_valid:
        message = f"Topic setting '{name}' with value '{text}' is {relation} of {limit}."
        raise guard.error(row, message, name=name, value=text)


class _TopicLimits:
    """The limits for topics and partitions, with the numbers of the cluster at one moment."""

    __slots__ = ("_guard", "_image", "_partitions", "_rows", "_topics")

    def __init__(self, guard: ProfileGuard, call: Call) -> None:
        self._guard = guard
        self._rows = {row.subject: row for row in guard.profile.of_kind(Kind.LIMIT)}
        self._image = call.node.cluster.metadata.image
        topics = [topic for topic in self._image.topics.values() if not topic.is_internal]
        self._topics = len(topics)
        self._partitions = sum(len(topic.partitions) for topic in topics)

    def add_topic(self, partitions: int, replication_factor: int) -> None:
        """Count a new topic; raises KafkaError if it exceeds a limit."""
        self._check_replication_factor(replication_factor)
        self._check(profiles.PARTITIONS_PER_TOPIC, partitions)
        self._check(profiles.TOPICS, self._topics + 1)
        self._check(profiles.PARTITIONS, self._partitions + partitions)
        self._topics += 1
        self._partitions += partitions

    def add_partitions(self, name: str, partitions: int) -> None:
        """Count the partitions that a topic gets; raises KafkaError if they exceed a limit."""
        topic = self._image.topics.get(name)
        added = 0 if topic is None else max(0, partitions - len(topic.partitions))
        self._check(profiles.PARTITIONS_PER_TOPIC, partitions)
        self._check(profiles.PARTITIONS, self._partitions + added)
        self._partitions += added

    def _check(self, subject: str, count: int) -> None:
        row = self._rows.get(subject)
        if row is not None and count > int(row.value):
            raise self._guard.error(
                row, f"The number of {subject} would be {count}; the maximum is {row.value}."
            )

    def _check_replication_factor(self, factor: int) -> None:
        row = self._rows.get(profiles.REPLICATION_FACTOR)
        if row is None or factor == BROKER_DEFAULT:
            return
        is_valid = factor % 2 == 1 if row.value == profiles.ODD else factor == int(row.value)
        if not is_valid:
            raise self._guard.error(row)


def _created_topic(guard: ProfileGuard, call: Call) -> Callable[[Any], Any]:
    limits = _TopicLimits(guard, call)
    default_count = call.node.config.int("num.partitions")

    def check(topic: Any) -> Any:
        changed = guard.settings.checked(topic, is_new=True, guard=guard)
        if topic.assignments:
            count, factor = len(topic.assignments), len(topic.assignments[0].broker_ids)
        else:
            count, factor = topic.num_partitions, topic.replication_factor
        limits.add_topic(default_count if count == BROKER_DEFAULT else count, factor)
        return changed

    return check


def _metadata(guard: ProfileGuard) -> _Check | None:
    """Return a function that lets Metadata create no topics beyond the limits."""
    if not any(map(guard.profile.limit, (profiles.TOPICS, profiles.PARTITIONS))):
        return None

    def check(call: Call, request: Any) -> Any:
        if request.allow_auto_topic_creation:
            topics = call.node.cluster.metadata.image.topics
            unknown = {
                topic.name
                for topic in request.topics or ()
                if topic.name and topic.name not in topics
            }
            if unknown:
                return without_creation(call, request, unknown)
        return request

    def without_creation(call: Call, request: Any, unknown: Collection[str]) -> Any:
        limits = _TopicLimits(guard, call)
        partitions = call.node.config.int("num.partitions")
        for name in in_steps(unknown):
            try:
                limits.add_topic(partitions, BROKER_DEFAULT)
            except KafkaError as error:
                refusal = error.without_traceback()
                kind = Entity.TOPIC
                report_refusal(call, guard.api.name, name, refusal, request, kind=kind)
                return with_fields(request, allow_auto_topic_creation=False)
        return request

    return check


def _added_partitions(guard: ProfileGuard, call: Call) -> Callable[[Any], Any]:
    limits = _TopicLimits(guard, call)

    def check(topic: Any) -> Any:
        limits.add_partitions(topic.name, topic.count)
        return topic

    return check


def _described_resource(guard: ProfileGuard, call: Call) -> Callable[[Any], Any]:
    del call
    broker_row = guard.profile.refusal(f"{guard.api.name} BROKER")

    def check(resource: Any) -> Any:
        if resource.resource_type == ResourceType.BROKER and broker_row is not None:
            raise guard.error(broker_row)
        return resource

    return check


def _altered_resource(guard: ProfileGuard, call: Call) -> Callable[[Any], Any]:
    check_type = _described_resource(guard, call)

    def check(resource: Any) -> Any:
        check_type(resource)
        if resource.resource_type != ResourceType.TOPIC:
            return resource
        return guard.settings.checked(resource, is_new=False, guard=guard)

    return check


def _produce(guard: ProfileGuard) -> _Check | None:
    size_row = guard.profile.limit(profiles.PRODUCED_BYTES)
    types_row = guard.profile.limit(profiles.COMPRESSION_TYPES)
    if size_row is None and types_row is None:
        return None
    max_bytes = None if size_row is None else int(size_row.value)
    allowed = () if types_row is None else types_row.value.split(", ")
    numbers = frozenset(CODEC_NUMBERS[name] for name in allowed)
    place = catalogue.row(guard.api.key).request.records

    def check(call: Call, request: Any) -> Any:
        total_bytes = 0
        for records in catalogue.values_at(request, place):
            total_bytes += len(records)
            if (
                types_row is not None
                and len(records) >= HEADER_SIZE
                and records[_CODEC_POSITION] & COMPRESSION_MASK not in numbers
            ):
                raise guard.error(types_row)
        if size_row is not None and max_bytes is not None and total_bytes > max_bytes:
            error = guard.error(
                size_row,
                f"connection closed: the request has {total_bytes} bytes of records",
                code=ErrorCode.MESSAGE_TOO_LARGE,
            )
            report_refusal_of_client(call, guard.api.name, error)
            raise DisconnectError(f"a Produce request has more than {max_bytes} bytes of records")
        return request

    return check


def _group(guard: ProfileGuard) -> _Check | None:
    """Return the check of an API that names one group, and may create it."""
    length_row = guard.profile.limit(profiles.GROUP_ID_CHARACTERS)
    count_row = guard.profile.limit(profiles.GROUPS)
    if length_row is None and count_row is None:
        return None

    def check(call: Call, request: Any) -> Any:
        if length_row is not None and len(request.group_id) > int(length_row.value):
            raise guard.error(length_row, f"A group id has at most {length_row.value} characters.")
        if count_row is not None and _is_new_group(call, request.group_id):
            count = sum(len(shard.machine.directory.groups) for shard in call.node.groups.shards())
            if count >= int(count_row.value):
                raise guard.error(count_row, f"There are {count} groups already.")
        return request

    return check


def _is_new_group(call: Call, group_id: str) -> bool:
    try:
        shard = call.node.groups.locate(group_id, call.node.id)
    except KafkaError:
        return False  # another node answers
    return shard.machine.group(group_id) is None


_ROW_CHECKS: Final[Mapping[str, _RowCheck]] = {
    "CreateTopics": _created_topic,
    "CreatePartitions": _added_partitions,
    "AlterConfigs": _altered_resource,
    "IncrementalAlterConfigs": _altered_resource,
    "DescribeConfigs": _described_resource,
}
"""Kafka's name of an API → the function that returns the check of each row of a request.

The check returns the row as it is passed to the handler, or raises KafkaError.
"""

_CHECKS: Final[Mapping[str, Callable[[ProfileGuard], _Check | None]]] = {
    "Metadata": _metadata,
    "Produce": _produce,
    "JoinGroup": _group,
    "OffsetCommit": _group,
    "ConsumerGroupHeartbeat": _group,
    "ShareGroupHeartbeat": _group,
    "StreamsGroupHeartbeat": _group,
    "TxnOffsetCommit": _group,
}
"""Kafka's name of an API → the function that returns the check of its requests, if there is one."""
