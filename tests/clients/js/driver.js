// Drives kafkajs; the protocol is described in drivers/protocol.py.

import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const require = createRequire(import.meta.url);
const { CompressionCodecs, CompressionTypes, Kafka, logLevel } = require('kafkajs');
const lz4 = require('lz4js');
const xxh32 = require('lz4js/xxh32.js');
const snappy = require('snappyjs');
const zstd = require('@bokuweb/zstd-wasm');

const TIMEOUT_MS = 60_000;
const CODECS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
};

// Java's snappy stream: a magic of eight bytes, two versions, then length-prefixed blocks.
const XERIAL_MAGIC = Buffer.from([0x82, 0x53, 0x4e, 0x41, 0x50, 0x50, 0x59, 0]);
const XERIAL_HEADER_LENGTH = 16;

function unsnap(buffer) {
  if (!buffer.subarray(0, XERIAL_MAGIC.length).equals(XERIAL_MAGIC)) {
    return Buffer.from(snappy.uncompress(buffer));
  }
  const blocks = [];
  let position = XERIAL_HEADER_LENGTH;
  while (position < buffer.length) {
    const length = buffer.readUInt32BE(position);
    blocks.push(snappy.uncompress(buffer.subarray(position + 4, position + 4 + length)));
    position += 4 + length;
  }
  return Buffer.concat(blocks);
}

// Kafka refuses frames whose blocks depend on each other. lz4js does not set the flag of
// independent blocks, so set it and update the header's checksum. This is correct for frames of one
// block, which no batch of the tests exceeds.
const LZ4_BLOCK_INDEPENDENCE = 0x20;
const LZ4_LARGEST_BLOCK = 4 * 1024 * 1024;

function compressLz4(buffer) {
  if (buffer.length > LZ4_LARGEST_BLOCK) throw new Error(`${buffer.length} bytes in one batch`);
  const frame = Buffer.from(lz4.compress(buffer));
  frame[4] |= LZ4_BLOCK_INDEPENDENCE;
  frame[6] = (xxh32.hash(0, frame, 4, 2) >>> 8) & 0xff;
  return frame;
}

function plugIn(type, compress, decompress) {
  CompressionCodecs[type] = () => ({
    compress: async (encoder) => Buffer.from(compress(encoder.buffer)),
    decompress: async (buffer) => Buffer.from(decompress(buffer)),
  });
}

const text = (buffer) => (buffer === null ? null : buffer.toString('utf8'));
const row = (partition, message) => [
  partition,
  Number(message.offset),
  text(message.key),
  text(message.value),
];

class Driver {
  constructor(bootstrap) {
    this.kafka = new Kafka({
      brokers: [bootstrap],
      clientId: 'driver',
      logLevel: logLevel.NOTHING,
      retry: { initialRetryTime: 100, maxRetryTime: 1000, retries: 20 },
    });
    this.producer = null;
    this.running = new Map();
    this.log = [];
    this.readers = 0;
  }

  async create_topic({ topic, partitions }) {
    const admin = this.kafka.admin();
    await admin.connect();
    await admin.createTopics({
      topics: [{ topic, numPartitions: partitions, replicationFactor: 1 }],
      waitForLeaders: true,
    });
    await admin.disconnect();
  }

  async produce({ topic, codec, records }) {
    if (this.producer === null) {
      this.producer = this.kafka.producer();
      await this.producer.connect();
    }
    // kafkajs makes one batch per partition and call; smaller calls make more batches.
    for (let start = 0; start < records.length; start += 1000) {
      const messages = records
        .slice(start, start + 1000)
        .map(([partition, key, value]) => ({ partition, key, value }));
      await this.producer.send({ topic, messages, acks: -1, compression: CODECS[codec] });
    }
  }

  // kafkajs cannot read without a group, so this uses a new group that never commits.
  async read({ topic, count }) {
    this.readers += 1;
    const consumer = this.kafka.consumer({ groupId: `reader-${process.pid}-${this.readers}` });
    await consumer.connect();
    await consumer.subscribe({ topics: [topic], fromBeginning: true });
    const rows = [];
    let timer;
    await new Promise((resolve, reject) => {
      timer = setTimeout(() => reject(new Error(`${rows.length} of ${count}`)), TIMEOUT_MS);
      consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error));
      consumer
        .run({
          autoCommit: false,
          eachBatch: async ({ batch }) => {
            rows.push(...batch.messages.map((message) => row(batch.partition, message)));
            if (rows.length >= count) resolve();
          },
        })
        .catch(reject);
    });
    clearTimeout(timer);
    await consumer.disconnect();
    return rows;
  }

  async join({ consumer: name, group, topic, protocol }) {
    if (protocol !== 'classic') throw new Error(`no protocol ${protocol}`);
    const consumer = this.kafka.consumer({
      groupId: group,
      sessionTimeout: 6000,
      rebalanceTimeout: 10_000,
      heartbeatInterval: 300,
      maxWaitTimeInMs: 100,
    });
    const member = { consumer, assigned: [] };
    this.running.set(name, member);
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
      member.assigned = payload.memberAssignment[topic] ?? [];
    });
    consumer.on(consumer.events.REBALANCING, () => {
      member.assigned = [];
    });
    consumer.on(consumer.events.CRASH, ({ payload }) => {
      if (!payload.restart) this.log.push(['error', name, String(payload.error.stack)]);
    });
    await consumer.connect();
    await consumer.subscribe({ topics: [topic], fromBeginning: true });
    await consumer.run({
      autoCommit: false,
      eachBatch: ({ batch, resolveOffset, heartbeat }) =>
        this.consume(name, consumer, batch, resolveOffset, heartbeat),
    });
  }

  async consume(name, consumer, batch, resolveOffset, heartbeat) {
    const { topic, partition, messages } = batch;
    this.log.push(['records', name, messages.map((message) => row(partition, message))]);
    const next = Number(batch.lastOffset()) + 1;
    try {
      await consumer.commitOffsets([{ topic, partition, offset: String(next) }]);
    } catch (refused) {
      this.log.push(['refused', name, String(refused)]);
      throw refused;
    }
    this.log.push(['commit', name, { [partition]: next }]);
    resolveOffset(batch.lastOffset());
    await heartbeat();
  }

  async leave({ consumer: name }) {
    const { consumer } = this.running.get(name);
    this.running.delete(name);
    await consumer.disconnect();
  }

  async members() {
    return Object.fromEntries([...this.running].map(([name, { assigned }]) => [name, assigned]));
  }

  async events() {
    return this.log.splice(0);
  }

  async close() {
    await Promise.all([...this.running.values()].map(({ consumer }) => consumer.disconnect()));
    if (this.producer !== null) await this.producer.disconnect();
  }
}

await zstd.init();
plugIn(CompressionTypes.Snappy, snappy.compress, unsnap);
plugIn(CompressionTypes.LZ4, compressLz4, lz4.decompress);
plugIn(CompressionTypes.ZSTD, zstd.compress, zstd.decompress);

const driver = new Driver(process.argv[2]);
for await (const line of createInterface({ input: process.stdin })) {
  const { op, ...request } = JSON.parse(line);
  let answer;
  try {
    answer = { ok: (await driver[op](request)) ?? null };
  } catch (error) {
    answer = { error: String(error.stack) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await driver.close();
