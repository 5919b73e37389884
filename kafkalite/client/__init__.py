"""A Kafka client: a producer and a consumer that use epochs, and connections for the tools."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafkalite.client.access import Access, Login
    from kafkalite.client.cluster_metadata import ClusterMetadata, PartitionMetadata
    from kafkalite.client.consumer import PartitionConsumer
    from kafkalite.client.epochs import Epochs, OffsetAndEpochs, TopicPartition
    from kafkalite.client.errors import (
        BrokerError,
        ClientError,
        CorruptBatchError,
        InvalidPartitionEpochError,
        LogTruncationError,
        NoOffsetError,
        OffsetOutOfRangeError,
        OutdatedMetadataError,
        TimedOutError,
    )
    from kafkalite.client.fetches import FetchLimits
    from kafkalite.client.metadata import Metadata
    from kafkalite.client.producer import ProducedBatch, Producer
    from kafkalite.client.records import ConsumerRecord, ProducerRecord
    from kafkalite.client.retries import Backoff

__all__ = [
    "Access",
    "Backoff",
    "BrokerError",
    "ClientError",
    "ClusterMetadata",
    "ConsumerRecord",
    "CorruptBatchError",
    "Epochs",
    "FetchLimits",
    "InvalidPartitionEpochError",
    "LogTruncationError",
    "Login",
    "Metadata",
    "NoOffsetError",
    "OffsetAndEpochs",
    "OffsetOutOfRangeError",
    "OutdatedMetadataError",
    "PartitionConsumer",
    "PartitionMetadata",
    "ProducedBatch",
    "Producer",
    "ProducerRecord",
    "TimedOutError",
    "TopicPartition",
]

_MODULES = {
    "access": ("Access", "Login"),
    "cluster_metadata": ("ClusterMetadata", "PartitionMetadata"),
    "consumer": ("PartitionConsumer",),
    "epochs": ("Epochs", "OffsetAndEpochs", "TopicPartition"),
    "errors": (
        "BrokerError",
        "ClientError",
        "CorruptBatchError",
        "InvalidPartitionEpochError",
        "LogTruncationError",
        "NoOffsetError",
        "OffsetOutOfRangeError",
        "OutdatedMetadataError",
        "TimedOutError",
    ),
    "fetches": ("FetchLimits",),
    "metadata": ("Metadata",),
    "producer": ("ProducedBatch", "Producer"),
    "records": ("ConsumerRecord", "ProducerRecord"),
    "retries": ("Backoff",),
}
"""Module → its names that this package exports."""


def __getattr__(name: str) -> Any:  # noqa: ANN401 - attributes can have any type
    """Import a name on first use: the tools need a few modules of this package only."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"kafkalite.client.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
