"""An audit of a capture with Spark; needs the extra `spark`."""

import pytest
from confluent_kafka import Consumer, TopicPartition

from kafkalite.cli.main import main
from kafkalite.testing import Broker

pytest.importorskip("pyspark")


def test_audit_writes_a_report(tmp_path):
    captures, output = tmp_path / "captures", tmp_path / "audited"
    with Broker(topics={"orders": 1}, capture=captures) as broker:
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "shop"})
        consumer.commit(offsets=[TopicPartition("orders", 0, 42)], asynchronous=False)
        consumer.close()
    main(["audit", str(captures), "--out", str(output), "--audits", "health"])
    assert "OffsetCommit" in (output / "report.html").read_text(encoding="utf-8")
