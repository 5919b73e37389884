"""A broker for each test of a `unittest.TestCase`."""

import unittest

from confluent_kafka import Producer

from kafkalite.testing import Broker


class OrderTest(unittest.TestCase):
    def setUp(self):
        self.broker = self.enterContext(Broker(topics={"orders": 3}))

    def test_order_is_written(self):
        producer = Producer({"bootstrap.servers": self.broker.bootstrap_servers})
        producer.produce("orders", b"two apples")
        self.assertEqual(producer.flush(10), 0)


if __name__ == "__main__":
    unittest.main()
