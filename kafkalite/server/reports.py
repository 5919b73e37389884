"""Reports: the log lines of one broker about its settings, its data, its nodes and its requests."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Final, cast

from kafkalite.apis.table import TABLE
from kafkalite.config.tables.kafkalite import CLIENT_TELEMETRY
from kafkalite.config.topic import topic_value
from kafkalite.coordinator.contract import UnreadableLogError
from kafkalite.gateway.error_messages import printable
from kafkalite.metadata.image import ResourceType
from kafkalite.metadata.internal_topics import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from kafkalite.server.logging import Level
from kafkalite.storage.disk_health import DiskProblem

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from kafkalite.cluster.cluster import Cluster
    from kafkalite.config.broker import BrokerConfig
    from kafkalite.gateway.exchanges import Exchange
    from kafkalite.metadata.image import MetadataDelta, MetadataImage
    from kafkalite.partitions.table import Truncation
    from kafkalite.server.assembly import ClusterAssembly
    from kafkalite.server.broker_directory import BrokerDirectory
    from kafkalite.server.logging import Log
    from kafkalite.server.settings import Settings
    from kafkalite.storage.disk_health import DiskFailure

LATE_LOOP_INTERVAL_S: Final = 10.0
"""The minimum time between two lines about a late loop."""

_MAX_ERROR_NAMES: Final = 3
"""Maximum number of errors that the line about an answer names."""

_REPLICATION_FACTOR_KEYS: Final = {
    OFFSETS_TOPIC: "offsets.topic.replication.factor",
    TRANSACTION_STATE_TOPIC: "transaction.state.log.replication.factor",
    SHARE_STATE_TOPIC: "share.coordinator.state.topic.replication.factor",
}
"""Internal topic → key of its replication factor; the topic needs at least that many nodes."""

_ENTITIES: Final = {
    OFFSETS_TOPIC: "groups",
    SHARE_STATE_TOPIC: "share states",
    TRANSACTION_STATE_TOPIC: "transactional ids",
}
"""Internal topic → what its coordinator serves."""

_FAILURE_BEGAN_TEXTS: Final = {
    DiskProblem.REFUSED: "the disk refuses to read or write",
    DiskProblem.DAMAGED: "a file is damaged",
    DiskProblem.MISSING: "a file in use is missing, and its log accepts no more records",
}
_FAILURE_ENDED_TEXTS: Final = {
    DiskProblem.REFUSED: "the disk reads and writes again",
    DiskProblem.DAMAGED: "a file is not damaged any more",
    DiskProblem.MISSING: "a missing file is back",
}


class Reports:
    """Writes what happens to one broker to its log."""

    __slots__ = (
        "_few_replica_topics",
        "_late_count",
        "_log",
        "_max_lateness_s",
        "_next_late_line_s",
        "_registered",
    )

    def __init__(self, log: Log) -> None:
        self._log = log
        self._few_replica_topics: set[str] = set()
        """Topics of coordinators that accept no records."""
        self._registered: AbstractSet[int] = frozenset()
        """The nodes in the latest metadata."""
        self._next_late_line_s = -inf
        self._late_count = 0
        self._max_lateness_s = 0.0

    # The start: settings, and data.

    def unused_settings(self, settings: Settings) -> None:
        """Log the settings that have no effect."""
        if not settings.config:
            return
        from kafkalite.config.unused_keys import keys_without_effect  # noqa: PLC0415 - rarely used

        for key, consequence in settings.unsupported.items():
            self._log.warning(consequence, key=key, value=settings.config[key])
        keys = [
            key for key in keys_without_effect(settings.config) if key not in settings.unsupported
        ]
        if keys:
            self._log.info("settings without effect here", keys=", ".join(keys))

    def _tiered_topics(self, config: BrokerConfig, image: MetadataImage) -> None:
        """Log topics with tiered storage if it is disabled, as Kafka does for each of them."""
        settings = {
            resource.name: own
            for resource, own in image.configs.items()
            if resource.type is ResourceType.TOPIC
        }
        if not settings:
            return
        from kafkalite.config.tiered_topics import (  # noqa: PLC0415 - few topics have settings
            MUST_BE_DELETED,
            disabled_topics,
        )

        topics = disabled_topics(settings, config)
        if topics:
            self._log.warning(MUST_BE_DELETED, topics=", ".join(topics))

    def opened_cluster(
        self, assembly: ClusterAssembly, directory: BrokerDirectory, cluster: Cluster
    ) -> None:
        """Log lost data and doubtful settings, and from now on changes of nodes and of the disk.

        Called after the data was read: if the disk prevents the start, the exception is the only
        report.
        """
        directory.directory.health.subscribe(self)
        self._lost_data(directory, cluster)
        directory.directory.end_loading()
        self._missing_nodes(assembly, cluster.metadata.image)
        for node_id, paths in assembly.config.offline_log_directories.items():
            for path in paths:
                self._log.warning(
                    "a log directory is offline, because it is a file", node=node_id, path=path
                )
        self._tiered_topics(assembly.config, cluster.metadata.image)
        self._missing_decoder(assembly.config)
        self._addresses(assembly)
        self._registered = cluster.metadata.image.brokers.keys()
        cluster.subscribe(self._unregistered_nodes)
        cluster.subscribe(partial(self._few_replicas, assembly.config))

    def restored_cluster(self, directory: BrokerDirectory) -> None:
        """Log changes of the disk of a cluster whose state was replaced."""
        directory.directory.health.subscribe(self)
        directory.directory.end_loading()

    def _lost_data(self, directory: BrokerDirectory, cluster: Cluster) -> None:
        """Log the data that could not be loaded."""
        for name, stray in directory.directory.renamed_directories:
            self._log.warning(
                "a directory was renamed because it belongs to no topic",
                directory=name,
                renamed=stray,
            )
        for (topic, index), recovery_point in directory.directory.missing_directories.items():
            self._log.warning(
                "the directory of a partition is missing, and its records are lost",
                partition=f"{topic}-{index}",
                lost_offsets=f"0 to {recovery_point - 1}",
            )
        for (topic, index), log in cluster.partitions.logs().items():
            if log.truncated_bytes:
                fields = {"cut_bytes": log.truncated_bytes, "end_offset": log.end_offset}
                if log.truncated_end_offset > log.end_offset:
                    # Those before the next start of the system, such as a loss of power.
                    fields["acknowledged_end_offset"] = log.truncated_end_offset
                self._log.warning(
                    "the unreadable end of a log was truncated",
                    partition=f"{topic}-{index}",
                    **fields,
                )
        for topic, coordinator in cluster.coordinators.coordinators():
            for index, error in coordinator.unreadable.items():
                self._unreadable_log(f"{topic}-{index}", _ENTITIES[topic], error)

    def _unreadable_log(self, partition: str, entities: str, error: Exception) -> None:
        line = f"{entities} of this partition have no coordinator: its log is unreadable"
        if isinstance(error, UnreadableLogError):
            self._log.error(
                line,
                partition=partition,
                path=error.filename,
                reason=error.strerror,
                action="stop the broker and restore the file from a copy, or remove the directory "
                f"{partition} to start without these {entities}",
            )
        else:
            self._log.error(line, exception=error, partition=partition)

    def _missing_nodes(self, assembly: ClusterAssembly, image: MetadataImage) -> None:
        """Warn about internal topics that cannot be created: clients only wait and retry."""
        nodes = assembly.settings.node_count
        for topic, key in _REPLICATION_FACTOR_KEYS.items():
            factor = assembly.config.int(key)
            if factor > nodes and topic not in image.topics:
                self._log.warning(
                    "an internal topic cannot be created with this number of nodes, "
                    "so its clients find no coordinator",
                    topic=topic,
                    nodes=nodes,
                    key=key,
                    value=factor,
                )

    def _missing_decoder(self, config: BrokerConfig) -> None:
        """Warn if clients are offered to push metrics that cannot be decoded."""
        if not config.bool(CLIENT_TELEMETRY):
            return
        from kafkalite.telemetry.otlp import reason_not_decoded  # noqa: PLC0415 - rarely used

        reason = reason_not_decoded()
        if reason is not None:
            self._log.warning(reason)

    def _addresses(self, assembly: ClusterAssembly) -> None:
        """Warn about listeners that others can reach, but whose advertised address they cannot."""
        for spec in assembly.listeners:
            if spec.advertises_localhost_to_others:
                self._log.warning(
                    "other machines can connect to a listener, but it advertises localhost to "
                    "them: set --advertise HOST:PORT",
                    listener=spec.name,
                )

    def security(self, assembly: ClusterAssembly, image: MetadataImage) -> None:
        """Warn about listeners that are not secured as expected, and about the authorizer.

        Called with the users and ACLs that the first client will find.
        """
        authorizer = assembly.config.str("authorizer.class.name")
        text = assembly.config.static_text
        if not (
            assembly.sasl_settings
            or authorizer
            or "super.users" in text
            or any(each.has_misleading_name for each in assembly.listeners)
        ):
            return
        from kafkalite.server.security_warnings import (  # noqa: PLC0415 - rarely used
            authorizer_warnings,
            listener_warnings,
            sasl_warnings,
        )

        listeners = [assembly.security_of(each) for each in assembly.listeners]
        for line, fields in (
            *listener_warnings(assembly.listeners, text),
            *sasl_warnings(listeners, assembly.settings.users, image),
            *authorizer_warnings(authorizer, text, image),
        ):
            self._log.warning(line, **fields)

    # While the broker runs: nodes, requests, files and the event loop.

    def _unregistered_nodes(self, image: MetadataImage, delta: MetadataDelta) -> None:
        if not delta.brokers_changed:
            return
        before, self._registered = self._registered, image.brokers.keys()
        for node_id in sorted(before - self._registered):
            self._log.info("unregistered a node", node=node_id)

    def _few_replicas(
        self, config: BrokerConfig, image: MetadataImage, delta: MetadataDelta
    ) -> None:
        """Log once that a coordinator's partition has too few replicas in sync for its records."""
        few = self._few_replica_topics
        for topic in delta.changed:
            if not topic.is_internal:
                continue
            minimum = topic_value("min.insync.replicas", image.topic_config(topic.name), config)
            partitions = (each for each in topic.partitions if len(each.isr) < len(each.replicas))
            counts = [len(each.isr) for each in partitions]
            if not counts or min(counts) >= cast("int", minimum):
                few.discard(topic.name)
            elif topic.name not in few:
                few.add(topic.name)
                self._log.warning(
                    "a coordinator's topic has too few replicas in sync",
                    topic=topic.name, in_sync=min(counts), min_insync_replicas=minimum,
                )  # fmt: skip

    def bug(self, api_name: str, error: Exception) -> None:
        """Log that a request failed because of a bug."""
        self._log.error("a request failed because of a bug", exception=error, api=api_name)

    def fault_rule(self, event: str, fault: str, rule: str) -> None:
        """Log that a fault was added or removed."""
        self._log.info(event, fault=fault, rule=printable(rule))

    def failed_hook(self, api_name: str, error: BaseException) -> None:
        """Log that a function of a test failed, and that the request is handled without it."""
        reason = printable(f"{type(error).__name__}: {error}")
        self._log.warning("a request hook failed", api=api_name, reason=reason)

    def exchange(self, exchange: Exchange) -> None:
        """Write a line at level debug for a request that has an answer, or whose answer is pending.

        A request that is not answered immediately has a second line when it is answered.
        """
        if self._log.level > Level.DEBUG or exchange.closing_reason is not None:
            return
        context, api_key = exchange.context, exchange.api_key
        fields: dict[str, Any] = {
            "node": context.node.id,
            "listener": context.listener,
            "client": context.client_host,
            "client_id": None if exchange.client_id is None else printable(exchange.client_id),
            "api": TABLE[api_key].name if api_key in TABLE else "unknown",
            "api_key": api_key,
            "version": exchange.version,
            "correlation_id": exchange.correlation_id,
        }
        if not exchange.was_pending:
            fields["request_bytes"] = exchange.request_bytes
        self._log.debug(
            "answer" if exchange.was_pending else "request",
            **fields,
            answer_bytes="later" if exchange.is_pending else exchange.answer_bytes,
            error=_error_names(exchange),
        )

    def truncation(self, truncation: Truncation) -> None:
        """Log that a new leader removed records from a partition."""
        self._log.warning(
            "a new leader removed the records that it does not have",
            topic=truncation.topic,
            partition=truncation.partition,
            leader=truncation.leader,
            leader_epoch=truncation.leader_epoch,
            end_offset=truncation.end_offset,
            removed_offsets=truncation.removed_offsets,
        )

    def failure_began(self, failure: DiskFailure) -> None:
        """Log the beginning of a failure of the disk, with its path and reason."""
        self._log.warning(
            _FAILURE_BEGAN_TEXTS[failure.problem], path=failure.path, reason=failure.reason
        )

    def failure_ended(self, failure: DiskFailure) -> None:
        """Log the end of a failure of the disk, at the same level as its beginning."""
        self._log.warning(
            _FAILURE_ENDED_TEXTS[failure.problem], path=failure.path, reason=failure.reason
        )

    def failed_reload_of_certificates(self, reason: str) -> None:
        """Log that changed certificates are invalid."""
        self._log.error("the former certificates remain in use", reason=reason)

    def weak_certificates(self, reason: str) -> None:
        """Log that a listener has a key or certificates that OpenSSL would refuse by default."""
        self._log.warning("a listener uses weak certificates", reason=reason)

    def failed_reload_of_sasl_settings(self, reason: str) -> None:
        """Log that changed settings of SASL are invalid."""
        self._log.error("the former SASL settings remain in use", reason=reason)

    def failed_load_of_token_keys(self, listener: str, reason: str) -> None:
        """Log that the keys of an identity provider are not available."""
        line = "the keys of signed tokens cannot be loaded"
        self._log.error(line, listener=listener, reason=reason)

    def late_loop(self, lateness_s: float, now_s: float) -> None:
        """Log how late the event loop was at `now_s`, at most once in LATE_LOOP_INTERVAL_S.

        Timers are then late, and clients wait. The cause may be a long task here, a machine with
        too much work, or a process that was stopped. A line has the maximum since the last one.
        """
        self._late_count += 1
        self._max_lateness_s = max(self._max_lateness_s, lateness_s)
        if now_s >= self._next_late_line_s:
            self._next_late_line_s = now_s + LATE_LOOP_INTERVAL_S
            late_by_ms = round(self._max_lateness_s * 1000)
            self._log.debug(
                "the event loop was late", late_by_ms=late_by_ms, times=self._late_count
            )
            self._late_count, self._max_lateness_s = 0, 0.0

    def failed_call(self, error: Exception) -> None:
        """Log that a call of the clock failed because of a bug."""
        self._log.error("a scheduled call failed", exception=error)

    def removed_abandoned(self, path: str) -> None:
        """Log that the data of a broker that was killed was removed."""
        self._log.debug("removed the temporary data of a killed broker", directory=path)

    # The end.

    def failed_close(self, directory: BrokerDirectory, error: OSError) -> None:
        """Log that data was not written; it is not lost, because the next start recovers it."""
        self._log.error(
            "the data directory could not be closed cleanly",
            directory=directory.path,
            path=error.filename,
            reason=error.strerror or str(error),
        )


def _error_names(exchange: Exchange) -> str | None:
    """Return the names of the errors in an answer; None if there is no answer.

    The text has Kafka's names of the distinct errors, at most three, and the number of further
    errors. It is "NONE" for an answer without errors.
    """
    if not exchange.answer_bytes:
        return None
    codes = exchange.error_codes()
    if codes is None:
        return "not searched in a long answer"
    if not codes:
        return "NONE"
    from kafkalite.capture.reading.messages import error_name  # noqa: PLC0415 - rarely used

    names = ", ".join(map(error_name, codes[:_MAX_ERROR_NAMES]))
    return names + (f", +{len(codes) - _MAX_ERROR_NAMES}" if len(codes) > _MAX_ERROR_NAMES else "")
