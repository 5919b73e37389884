"""The differences from Kafka in the documentation: each has a test, or a reason for having none."""

from __future__ import annotations

from typing import NamedTuple


class Difference(NamedTuple):
    """The beginning of an item of the page, and its tests or a reason for having none."""

    item: str
    tests: tuple[str, ...] = ()
    """Names as for pytest. They show the answers of Kafka and of kafkalite."""
    reason: str = ""


_KNOWN = "tests/conformance/test_known_differences.py::"
_NODES = "tests/conformance/test_nodes.py::test_both_clusters_give_the_same_answers"
_QUORUM = "tests/conformance/test_quorum.py::"
_FASTER = "Kafka's answer depends on its speed: a slow one can be as early as that of kafkalite"
_NODE_MODEL = "a property of nodes in one process; no answer of a request shows it"
_ISOLATED = "a node of Kafka cannot be isolated by a test without rights for the network"
_LIMIT = "a limit against exhaustion of memory; Kafka needs minutes for so many entries"

DIFFERENCES = (
    Difference("A group starts at once", (f"{_KNOWN}test_the_delay_of_a_first_rebalance",)),
    Difference("Internal topics have as many replicas",
        (f"{_KNOWN}test_replicas_of_an_internal_topic",)),
    Difference("A partition has one log on disk", reason=_NODE_MODEL),
    Difference("Request versions that Kafka 4 removed",
        (f"{_KNOWN}test_a_request_version_that_kafka_removed",)),
    Difference("SASL has no GSSAPI",
        ("tests/conformance/test_delegation_tokens.py::test_an_unknown_token_is_refused",)),
    Difference("Signed tokens of OAUTHBEARER",
        ("tests/conformance/test_signed_tokens.py::test_kafka_accepts_the_same_tokens",)),
    Difference("CreateAcls with the code ANY",
        ("tests/conformance/test_authorization.py::test_acls_are_administered_as_in_kafka",)),
    Difference("DeleteAcls is refused", reason=_LIMIT),
    Difference("Dynamic changes of mechanisms", (f"{_KNOWN}test_mechanisms_are_changed",)),
    Difference("A listener with TLS and without a key store",
        (f"{_KNOWN}test_a_listener_with_tls_and_without_a_key_store",)),
    Difference("A client certificate that is missing",
        ("tests/conformance/test_tls.py::test_handshakes_end_as_in_kafka",)),
    Difference("A client certificate without a subject",
        ("tests/conformance/test_tls.py::test_a_client_certificate_without_a_subject",)),
    Difference("Changed key stores are loaded",
        reason="an absence: Kafka would have to be observed for a time without an event"),
    Difference("A transaction of up to a hundred partitions",
        (f"{_KNOWN}test_a_transaction_after_its_end",)),
    Difference("`offsets.topic.segment.bytes`",
        (("tests/conformance/test_disk_faults.py::"
         "test_segments_too_small_for_a_topic_leave_kafka_without_coordinators"),
         "tests/conformance/test_disk_faults.py::test_kafkalite_refuses_too_small_segments_at_start")),
    Difference("A fetch from a batch whose length field",
        ("tests/conformance/test_damaged_log.py::test_an_invalid_batch_length_is_a_corrupt_message",
         "tests/conformance/test_damaged_log.py::test_a_length_beyond_the_end_is_a_corrupt_message")),
    Difference("`max.decompressed.message.bytes`",
        (f"{_KNOWN}test_a_limit_that_is_lower_than_stored_records",)),
    Difference("Tiered storage is not served", reason="Kafka has no tiered storage by itself"),
    Difference("A renewed delegation token",
        (f"{_KNOWN}test_a_delegation_token_with_the_longest_time",)),
    Difference("Host names in quotas", reason="names resolve differently on each machine"),
    Difference("Features that Kafka 4.4 leaves",
        ("tests/conformance/test_scenarios.py::test_kafkalite_answers_as_kafka_does",)),
    Difference("A replica does not fetch", reason=_NODE_MODEL),
    Difference("One process is all nodes", reason=_NODE_MODEL),
    Difference("Answers of the coordinators", reason=_NODE_MODEL),
    Difference("A coordinator with fewer in-sync replicas",
        ("tests/conformance/test_nodes.py::test_a_coordinator_with_too_few_in_sync_replicas",)),
    Difference("A reassignment to running nodes", reason=_FASTER),
    Difference("As in Kafka, UnregisterBroker", (_NODES,)),
    Difference("The nodes share memory limits", reason=_NODE_MODEL),
    Difference("The node that acts as controller is the only voter",
        (f"{_QUORUM}test_both_listeners_answer_as_those_of_kafka",)),
    Difference("AddRaftVoter does not connect",
        (f"{_QUORUM}test_both_listeners_answer_as_those_of_kafka",)),
    Difference("A listener for controllers does not serve",
        (f"{_QUORUM}test_the_listener_for_controllers_answers_as_that_of_kafka",)),
    Difference("Settings of brokers are checked at the controller",
        (f"{_QUORUM}test_settings_of_brokers_are_checked_at_the_controller",)),
    Difference("A node that stopped or was isolated is an observer", (_NODES,)),
    Difference("The directories of the nodes after the first", reason=_NODE_MODEL),
    Difference("Snapshots of the metadata log",
        reason="Kafka deletes the beginning of the log after a week or 100 MB"),
    Difference("A Kafka with `controller.quorum.voters`",
        (f"{_QUORUM}test_kafka_with_fixed_voters_starts_on_the_directory",)),
    Difference("The controller notices the end",
        ("tests/conformance/test_nodes.py::test_the_end_of_a_node_is_noticed",)),
    Difference("A controlled shutdown takes no time", reason=_FASTER),
    Difference("The data of a stopped node", reason=_NODE_MODEL),
    Difference("The last running node cannot stop", reason=_NODE_MODEL),
    Difference("A node is added by a command", reason=_NODE_MODEL),
    Difference("A removed node is unregistered", reason=_NODE_MODEL),
    Difference("When the process starts again", reason=_NODE_MODEL),
    Difference("The controller is never on the side", reason=_NODE_MODEL),
    Difference("When the controller elects another leader", reason=_ISOLATED),
    Difference("A coordinator on an isolated node", reason=_ISOLATED),
    Difference("DeleteRecords at an isolated leader", reason=_ISOLATED),
    Difference("A former leader with old metadata", reason=_ISOLATED),
    Difference("Such a leader serves Fetch", reason=_ISOLATED),
    Difference("Coordinators and the controller use", reason=_NODE_MODEL),
    Difference("A member that joins with an empty subscription", reason=_FASTER),
    Difference("If an upgrade fails",
        (f"{_KNOWN}test_an_upgrade_of_a_full_group",
         f"{_KNOWN}test_an_upgrade_whose_records_are_too_large")),
    Difference("When a classic member changes to the consumer protocol",
        (f"{_KNOWN}test_a_classic_member_changes_its_protocol",)),
    Difference("A group remains a consumer group",
        (f"{_KNOWN}test_a_leave_with_a_damaged_member",)),
    Difference("The state of a share partition is created at once",
        (f"{_KNOWN}test_partitions_of_a_share_member",)),
    Difference("DescribeShareGroupOffsets returns -1",
        (f"{_KNOWN}test_offsets_of_a_missing_share_partition",)),
    Difference("A waiting ShareFetch is answered", reason=_FASTER),
    Difference("An acknowledgement below the start offset",
        (f"{_KNOWN}test_an_acknowledgement_below_the_start_offset",)),
    Difference("If the BatchSize of a ShareFetch", (f"{_KNOWN}test_a_batch_size_of_zero",)),
    Difference("When a connection closes", (f"{_KNOWN}test_share_sessions_of_one_connection",)),
    Difference("Records for a dead-letter topic", reason=_FASTER),
    Difference("Every `share.coordinator.state.topic.prune.interval.ms`",
        (f"{_KNOWN}test_old_records_of_the_state_of_share_groups",)),
    Difference("The share sessions of a node", reason=_LIMIT),
    Difference("If internal topics are missing",
        (f"{_KNOWN}test_internal_topics_of_a_streams_group",)),
    Difference("A member with `application.server`",
        (f"{_KNOWN}test_an_application_server_without_its_topics",)),
    Difference("StreamsGroupDescribe shows the partitions", reason=_FASTER),
    Difference("If another member tries to use",
        (f"{_KNOWN}test_a_refused_owner_of_an_instance_id",)),
    Difference("A stored description of a topology",
        (f"{_KNOWN}test_a_stored_description_of_an_empty_streams_group",)),
    Difference("A stored description is deleted with its group",
        reason="Kafka's own plug-in does not fail; tests/scenarios/test_faults.py has the answer"),
    Difference("A topology has at most 100,000 tasks", reason=_LIMIT),
    Difference("A transactional Produce during the end", reason=_FASTER),
    Difference("If `transaction.version` is 0",
        (f"{_KNOWN}test_a_produce_outside_of_the_transaction",)),
    Difference("An AddPartitionsToTxn without transactions",
        (f"{_KNOWN}test_partitions_for_no_transaction",)),
    Difference("A request that describes groups", (f"{_KNOWN}test_repeated_entries",)),
)  # fmt: skip
"""In the order of the page."""
