// A program of kafkajs that connects with the settings of its first argument, in JSON.
import kafkajs from "kafkajs";

const { Kafka, logLevel } = kafkajs;

const [settings, topic, value] = process.argv.slice(2);

async function main() {
  const kafka = new Kafka({ ...JSON.parse(settings), logLevel: logLevel.NOTHING });
  const producer = kafka.producer();
  await producer.connect();
  await producer.send({ topic, messages: [{ value }] });
  await producer.disconnect();
  const consumer = kafka.consumer({ groupId: "secured" });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await new Promise((resolve, reject) => {
    consumer
      .run({
        eachMessage: async ({ message }) => {
          console.log(message.value.toString());
          resolve();
        },
      })
      .catch(reject);
  });
  await consumer.disconnect();
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
