// A driver of kafkajs that connects with settings as Broker.client_config returns them. Each request
// writes one record and reads it in a group; see drivers/security_driver.py.
import { createInterface } from "node:readline";
import kafkajs from "kafkajs";

const { Kafka, logLevel } = kafkajs;
const TIMEOUT_MS = 20_000;

function clientOf(settings) {
  const { sasl, ...others } = settings;
  if (sasl?.token) {
    const value = sasl.token;
    sasl.oauthBearerProvider = async () => ({ value });
  }
  return new Kafka({
    ...others,
    sasl,
    logLevel: logLevel.NOTHING,
    retry: { retries: 1, initialRetryTime: 50 },
  });
}

async function exchange({ settings, topic, group, value }) {
  const kafka = clientOf(settings);
  const producer = kafka.producer();
  await producer.connect();
  await producer.send({ topic, messages: [{ value }] });
  await producer.disconnect();
  const consumer = kafka.consumer({ groupId: group, maxWaitTimeInMs: 100 });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  let timer;
  const read = await new Promise((resolve, reject) => {
    timer = setTimeout(() => reject(new Error("no record")), TIMEOUT_MS);
    consumer
      .run({ eachMessage: async ({ message }) => resolve(message.value.toString()) })
      .catch(reject);
  });
  clearTimeout(timer);
  await consumer.disconnect();
  return read;
}

for await (const line of createInterface({ input: process.stdin })) {
  let answer;
  try {
    answer = { ok: await exchange(JSON.parse(line)) };
  } catch (error) {
    answer = { error: String(error.stack) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
