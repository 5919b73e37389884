// Produces and consumes a record with kafkajs. Start a broker, then run:
//   npm install kafkajs && node orders.js localhost:9092
const { Kafka } = require("kafkajs");

(async () => {
  const kafka = new Kafka({ brokers: [process.argv[2] || "localhost:9092"] });
  const producer = kafka.producer();
  await producer.connect();
  await producer.send({ topic: "orders", messages: [{ key: "42", value: "two apples" }] });
  await producer.disconnect();

  const consumer = kafka.consumer({ groupId: "shop" });
  await consumer.connect();
  await consumer.subscribe({ topic: "orders", fromBeginning: true });
  await consumer.run({
    eachMessage: async ({ message }) => {
      console.log(`${message.value}`);
      setImmediate(() => consumer.disconnect());
    },
  });
})();
