// A program of kafkajs that authenticates with the tokens of an identity provider. Its arguments are
// the settings in JSON, a topic and a value.
import kafkajs from "kafkajs";

const { Kafka, logLevel } = kafkajs;

const [settings, topic, value] = process.argv.slice(2);
const { sasl, ...connection } = JSON.parse(settings);

async function requestToken() {
  const credentials = Buffer.from(`${sasl.client_id}:${sasl.client_secret}`).toString("base64");
  const response = await fetch(sasl.token_endpoint, {
    method: "POST",
    headers: { authorization: `Basic ${credentials}` },
    body: new URLSearchParams({ grant_type: "client_credentials" }),
  });
  if (!response.ok) {
    throw new Error(`the identity provider answers ${response.status}`);
  }
  return { value: (await response.json()).access_token };
}

async function main() {
  const kafka = new Kafka({
    ...connection,
    sasl: { mechanism: sasl.mechanism, oauthBearerProvider: requestToken },
    retry: { retries: 0 },
    logLevel: logLevel.NOTHING,
  });
  const producer = kafka.producer();
  await producer.connect();
  const [{ topicName }] = await producer.send({ topic, messages: [{ value }] });
  console.log(`sent to ${topicName}`);
  await producer.disconnect();
}

main().catch((error) => {
  console.error(error);
  process.exit(1); // kafkajs leaves its connection open if it gets no token
});
