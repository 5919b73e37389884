// Transactional producers of kafkajs; the protocol is in drivers/producers.py.

import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const require = createRequire(import.meta.url);
const { Kafka, logLevel } = require('kafkajs');

const producers = new Map();

const operations = {
  async init(request) {
    const kafka = new Kafka({
      brokers: [process.argv[2]],
      logLevel: logLevel.NOTHING,
      requestTimeout: request.request_timeout_ms,
    });
    const producer = kafka.producer({
      transactionalId: request.transactional_id,
      transactionTimeout: request.timeout_ms,
      idempotent: true,
      maxInFlightRequests: 1,
    });
    await producer.connect();
    producers.set(request.name, { producer, transaction: null });
  },
  async begin({ name }) {
    const opened = producers.get(name);
    opened.transaction = await opened.producer.transaction();
  },
  async send({ name, topic, value }) {
    await producers.get(name).transaction.send({ topic, messages: [{ partition: 0, value }] });
  },
  async commit({ name }) {
    await producers.get(name).transaction.commit();
  },
  async abort({ name }) {
    await producers.get(name).transaction.abort();
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { op, ...request } = JSON.parse(line);
  let answer = { ok: null };
  try {
    await operations[op](request);
  } catch (error) {
    answer = { error: String(error.stack) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
process.exit(0);
