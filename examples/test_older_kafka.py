"""A broker that emulates an older release of Kafka."""

import pytest
from confluent_kafka.admin import AdminClient

from kafkalite.testing import Broker


@pytest.mark.parametrize("release", ["3.3", "3.9", "4.3", "4.4"])
def test_client_works_with_the_release(release):
    with Broker(topics={"orders": 1}, as_version=release) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        assert "orders" in admin.list_topics(timeout=30).topics
