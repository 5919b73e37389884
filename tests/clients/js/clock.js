// A test in another language: it reads a group's offset with kafkajs, advances the clock over HTTP,
// and prints the offset before and after, and the kinds of events in the group's history.
import { Kafka, logLevel } from 'kafkajs';

const [bootstrap, control] = process.argv.slice(2);
const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.NOTHING });
const admin = kafka.admin();

async function committed() {
  const [topic] = await admin.fetchOffsets({ groupId: 'shop', topics: ['orders'] });
  return topic.partitions[0].offset;
}

await admin.connect();
const before = await committed();
const moved = await fetch(`${control}/v1/clock`, {
  method: 'POST',
  headers: { 'Content-Type': 'application/json' },
  body: JSON.stringify({ advance: '8d' }),
});
const clock = await moved.json();
const after = await committed();
const explained = await (await fetch(`${control}/v1/explain?group=shop`)).json();
const kinds = explained.entries.map((entry) => entry.kind);
console.log(JSON.stringify({ before, after, iso: clock.iso, kinds }));
await admin.disconnect();
