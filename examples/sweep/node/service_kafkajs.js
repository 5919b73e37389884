// A service that writes a bill for each order, with kafkajs; a shop in the same process writes orders.
//
// It ends when it has read all orders, and begins again after an error. With the argument --new-only it
// has a fault: it begins with new orders if its group has no committed offset, which is the default of
// kafkajs. After an error before its first commit, it begins after the orders that it has not billed:
// https://github.com/tulios/kafkajs/issues/590

import kafkajs from "kafkajs";

const { Kafka, logLevel } = kafkajs;
const MAX_STARTS = 3;
const LIMIT_MS = 10_000;
const ORDERS = ["order-1", "order-2", "order-3"];

const kafka = new Kafka({
  clientId: "billing",
  brokers: process.env.KAFKA_BOOTSTRAP_SERVERS.split(","),
  logLevel: logLevel.NOTHING,
  retry: { initialRetryTime: 50 },
});
let written = 0;

async function writeOrders(producer) {
  for (; written < ORDERS.length; written++) {
    await producer.send({ topic: "orders", messages: [{ value: ORDERS[written] }] });
  }
}

// Run the consumer until it has committed the last order.
function bill(consumer, shop, producer) {
  return new Promise((resolve, reject) => {
    const limit = setTimeout(() => reject(new Error("no order has arrived")), LIMIT_MS);
    const end = (finish) => (value) => {
      clearTimeout(limit);
      finish(value);
    };
    let isWriting = false;
    // From its first fetch on, the consumer has a position.
    consumer.on(consumer.events.FETCH, () => {
      if (!isWriting) {
        isWriting = true;
        writeOrders(shop).catch(end(reject));
      }
    });
    consumer.on(consumer.events.CRASH, ({ payload }) => end(reject)(payload.error));
    consumer
      .run({
        autoCommit: false,
        eachMessage: async ({ topic, partition, message }) => {
          const value = `bill of ${message.value}`;
          await producer.send({ topic: "bills", messages: [{ value }] });
          const offset = String(Number(message.offset) + 1);
          await consumer.commitOffsets([{ topic, partition, offset }]);
          if (String(message.value) === ORDERS.at(-1)) {
            end(resolve)();
          }
        },
      })
      .catch(end(reject));
  });
}

async function billOrders(fromBeginning) {
  const shop = kafka.producer({ idempotent: true });
  // It does not send a bill again by itself.
  const producer = kafka.producer({ retry: { retries: 0 } });
  const consumer = kafka.consumer({
    groupId: "billing",
    sessionTimeout: 6000,
    heartbeatInterval: 500,
    maxWaitTimeInMs: 200,
    retry: { initialRetryTime: 50, restartOnFailure: async () => false },
  });
  try {
    await Promise.all([shop.connect(), producer.connect(), consumer.connect()]);
    await consumer.subscribe({ topics: ["orders"], fromBeginning });
    await bill(consumer, shop, producer);
  } finally {
    await Promise.allSettled([consumer.disconnect(), producer.disconnect(), shop.disconnect()]);
  }
}

async function main() {
  for (let start = 0; start < MAX_STARTS; start++) {
    try {
      await billOrders(!process.argv.includes("--new-only"));
      return 0;
    } catch (error) {
      console.log("the service starts again:", String(error));
    }
  }
  console.log("the service gives up");
  return 1;
}

process.exit(await main());
