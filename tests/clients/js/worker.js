// A worker of kafkajs; its orders and output are described in drivers/worker.py.  Its
// TxnOffsetCommit requests have no member id, so it has a separate group and its own partitions.

import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const require = createRequire(import.meta.url);
const { AssignerProtocol, Kafka, logLevel } = require('kafkajs');

const SESSION_TIMEOUT_MS = 1500;
const HEARTBEAT_MS = 300;
const TRANSACTION_TIMEOUT_MS = 60_000;
const FENCED = /INVALID_PRODUCER_EPOCH|PRODUCER_FENCED/;

const task = JSON.parse(process.argv[2]);
const say = (line) => process.stdout.write(`${line}\n`);

class Worker {
  constructor() {
    this.kafka = new Kafka({
      brokers: [task.bootstrap],
      logLevel: logLevel.NOTHING,
      retry: { initialRetryTime: 100, maxRetryTime: 500, retries: 100 },
    });
    this.isToHold = false;
    this.isToAbort = false;
    this.proceed = null;
  }

  // Become the only producer of the transactional id; an open transaction is aborted.
  async open() {
    this.producer = this.kafka.producer({
      transactionalId: task.transactional_id,
      transactionTimeout: TRANSACTION_TIMEOUT_MS,
      idempotent: true,
      maxInFlightRequests: 1,
    });
    await this.producer.connect();
    // The first transaction requests the producer id.
    const transaction = await this.producer.transaction();
    await transaction.abort();
  }

  async work() {
    await this.open();
    this.consumer = this.kafka.consumer({
      groupId: task.group,
      partitionAssigners: [() => this.assigner()],
      sessionTimeout: SESSION_TIMEOUT_MS,
      heartbeatInterval: HEARTBEAT_MS,
      maxWaitTimeInMs: 100,
      readUncommitted: false,
      retry: { retries: 100, maxRetryTime: 500, restartOnFailure: async () => true },
    });
    await this.consumer.connect();
    await this.consumer.subscribe({ topics: [task.source], fromBeginning: true });
    say('ready');
    await this.consumer.run({
      autoCommit: false,
      eachBatchAutoResolve: false,
      eachBatch: (read) => this.consume(read),
    });
  }

  assigner() {
    const metadata = { version: 0, topics: [task.source], userData: Buffer.alloc(0) };
    const assignment = { [task.source]: task.partitions };
    return {
      name: 'Own',
      version: 0,
      protocol: () => ({ name: 'Own', metadata: AssignerProtocol.MemberMetadata.encode(metadata) }),
      assign: async ({ members }) =>
        members.map(({ memberId }) => ({
          memberId,
          memberAssignment: AssignerProtocol.MemberAssignment.encode({
            version: 0,
            assignment,
            userData: Buffer.alloc(0),
          }),
        })),
    };
  }

  async consume({ batch, resolveOffset, heartbeat, isRunning, isStale }) {
    for (let start = 0; start < batch.messages.length; start += task.batch) {
      if (!isRunning() || isStale()) return;
      const messages = batch.messages.slice(start, start + task.batch);
      if (!(await this.transact(batch.partition, messages))) return;
      resolveOffset(messages.at(-1).offset);
      await heartbeat();
    }
  }

  async transact(partition, messages) {
    try {
      const transaction = await this.producer.transaction();
      await transaction.send({
        topic: task.sink,
        messages: messages.map(({ key, value }) => ({ partition, key, value: `${value}!` })),
      });
      const offset = String(Number(messages.at(-1).offset) + 1);
      const topics = [{ topic: task.source, partitions: [{ partition, offset }] }];
      await transaction.sendOffsets({ consumerGroupId: task.group, topics });
      if (await this.obeyInside()) {
        await transaction.abort();
        say('aborted');
        return false;
      }
      await transaction.commit();
      say(`committed ${messages.length}`);
      return true;
    } catch (error) {
      if (FENCED.test(error.type ?? '')) await end('fenced', error);
      process.stderr.write(`${error.stack}\n`);
      await this.goBack();
      return false;
    }
  }

  // The result of a transaction is unknown if the broker was killed at its end.
  async goBack() {
    await this.producer.disconnect();
    await this.open();
    const admin = this.kafka.admin();
    await admin.connect();
    const [{ partitions }] = await admin.fetchOffsets({ groupId: task.group, topics: [task.source] });
    await admin.disconnect();
    for (const { partition, offset } of partitions) {
      if (task.partitions.includes(partition)) {
        this.consumer.seek({ topic: task.source, partition, offset });
      }
    }
  }

  async obeyInside() {
    if (this.isToHold) {
      this.isToHold = false;
      const reported = new Promise((resolve) => {
        this.proceed = resolve;
      });
      say('held');
      await reported;
    }
    const isToAbort = this.isToAbort;
    this.isToAbort = false;
    return isToAbort;
  }

  async listen() {
    const orders = {
      hold: () => {
        this.isToHold = true;
      },
      abort: () => {
        this.isToAbort = true;
      },
      go: () => this.proceed(),
    };
    for await (const line of createInterface({ input: process.stdin })) {
      if (line === 'close') break;
      orders[line]();
    }
    await this.consumer.disconnect();
    await this.producer.disconnect();
    process.exit(0);
  }
}

function end(word, error) {
  process.stderr.write(`${error.stack}\n`);
  process.stdout.write(`${word} ${error.type ?? error.name}\n`, () => process.exit(1));
  return new Promise(() => {});
}

process.on('unhandledRejection', (error) => end('failed', error));
const worker = new Worker();
await worker.work();
await worker.listen();
