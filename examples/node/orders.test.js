// What a service meets in production, each in one test.
import assert from 'node:assert/strict';
import test from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { CompressionTypes, Kafka, logLevel } from 'kafkajs';
import { startBroker } from './kafkalite.js';

const START = ['--topic', 'orders:1'];

function connect(broker, settings = {}) {
  return new Kafka({ brokers: broker.servers, logLevel: logLevel.NOTHING, ...settings });
}

async function newProducer(broker, settings = {}, clientSettings = {}) {
  const producer = connect(broker, clientSettings).producer(settings);
  await producer.connect();
  broker.beforeStop(() => producer.disconnect());
  return producer;
}

/** Returns a consumer that has joined, and a function that returns its next messages. */
async function newConsumer(broker, settings = {}) {
  const consumer = connect(broker).consumer({ groupId: 'shop', ...settings });
  await consumer.connect();
  broker.beforeStop(() => consumer.disconnect());
  await consumer.subscribe({ topic: 'orders', fromBeginning: true });
  const messages = [];
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ message }) => messages.push(message),
  });
  const read = async (count) => {
    while (messages.length < count) {
      await setTimeout(10);
    }
    return messages.splice(0, count);
  };
  const commit = (offset) => consumer.commitOffsets([{ topic: 'orders', partition: 0, offset }]);
  return { consumer, read, commit };
}

const kinds = (entries) => entries.map((entry) => entry.kind);
const values = (records) => records.map((record) => record.value);

test('a refused commit is retried', async (t) => {
  const broker = await startBroker(t, ...START);
  await broker.produce('orders', 'two apples');
  const { read, commit } = await newConsumer(broker);
  await read(1);
  const { id } = await broker.addFault({
    match: { api: 'OffsetCommit', group: 'shop' },
    trigger: { times: 1 },
    action: { error: 'COORDINATOR_LOAD_IN_PROGRESS' },
  });
  await commit('1');
  const { firings, matches } = await broker.fault(id);
  assert.deepEqual([firings, matches], [1, 2]);
  assert.equal((await broker.group('shop')).offsets[0].offset, 1);
});

test('offsets of an empty group expire after a week', async (t) => {
  const broker = await startBroker(t, ...START);
  const { consumer, commit } = await newConsumer(broker);
  await broker.waitForGroup('shop', 'Stable', 1);
  await commit('42');
  await consumer.disconnect();
  await broker.advance('6d23h');
  assert.equal((await broker.group('shop')).offsets[0].offset, 42);
  await broker.advance('70m'); // Kafka checks every ten minutes
  await broker.waitForGroup('shop', 'Dead', 0);
});

test('a second producer fences the first', async (t) => {
  const broker = await startBroker(t, ...START);
  const settings = { transactionalId: 'shop', maxInFlightRequests: 1, idempotent: true };
  const transaction = await (await newProducer(broker, settings)).transaction();
  await transaction.send({ topic: 'orders', messages: [{ value: 'two apples' }] });
  const other = await (await newProducer(broker, settings)).transaction();
  await assert.rejects(transaction.commit());
  await other.abort();
  assert.ok(kinds(await broker.explain({ transactional_id: 'shop' })).includes('fenced'));
  assert.deepEqual(await broker.records('orders'), []);
});

test('a poison record goes to the dead letters', async (t) => {
  const broker = await startBroker(t, ...START);
  await broker.produce('orders', '2', 'two apples', '3');
  const producer = await newProducer(broker);
  const { read, commit } = await newConsumer(broker);
  let apples = 0;
  for (const { value } of await read(3)) {
    const count = Number(value.toString());
    if (Number.isNaN(count)) {
      await producer.send({ topic: 'dead-letters', messages: [{ value }] });
    } else {
      apples += count;
    }
  }
  await commit('3');
  assert.equal(apples, 5);
  assert.deepEqual(values(await broker.records('dead-letters', 1)), ['two apples']);
  assert.equal((await broker.group('shop')).offsets[0].lag, 0);
});

test('the lag is what the group has not read', async (t) => {
  const broker = await startBroker(t, ...START);
  await broker.produce('orders', '1', '2', '3', '4', '5');
  const { read, commit } = await newConsumer(broker);
  await read(2);
  await commit('2');
  assert.equal((await broker.group('shop')).offsets[0].lag, 3);
});

test('a group survives a storm of rebalances', async (t) => {
  const broker = await startBroker(t, ...START);
  await broker.produce('orders', 'two apples');
  const settings = { heartbeatInterval: 50, maxWaitTimeInMs: 50 };
  const { read, commit } = await newConsumer(broker, settings);
  await read(1);
  await commit('1');
  const storm = await broker.addFault({
    match: { api: 'Heartbeat', group: 'shop' },
    action: { error: 'REBALANCE_IN_PROGRESS' },
  });
  while ((await broker.group('shop')).epoch < 4) {
    await setTimeout(10); // the consumer joins again after each heartbeat
  }
  assert.ok((await broker.removeFault(storm.id)).firings >= 3);
  await broker.produce('orders', 'a pear');
  assert.equal((await read(1))[0].value.toString(), 'a pear');
  await broker.waitForGroup('shop', 'Stable', 1);
  assert.ok(kinds(await broker.explain({ group: 'shop' })).includes('rebalance'));
});

test('a producer beyond its quota is throttled', async (t) => {
  const broker = await startBroker(t, ...START, '--config', 'quota.window.num=2');
  await broker.setQuotas('reports', { producer_byte_rate: 10_000 });
  await broker.requests(); // the log begins
  const producer = await newProducer(broker, {}, { clientId: 'reports' });
  for (let count = 0; count < 3; count++) {
    await producer.send({ topic: 'orders', messages: [{ value: 'a'.repeat(5_000) }] });
  }
  const answers = (await broker.requests({ api: 'Produce' })).map(({ response }) => response);
  assert.ok(answers.some((answer) => answer.throttleTimeMs > 0));
  assert.ok(kinds(await broker.explain({ topic: 'orders' })).includes('throttled'));
});

test('records are compressed and acknowledged by all replicas', async (t) => {
  const broker = await startBroker(t, ...START);
  await broker.requests(); // the log begins
  const producer = await newProducer(broker);
  const messages = [{ value: 'two apples' }];
  await producer.send({ topic: 'orders', compression: CompressionTypes.GZIP, messages });
  const fields = { acks: -1, compression: 'gzip' };
  await broker.expect({ api: 'Produce', topic: 'orders', fields, times: 1 });
});

test('a transaction survives a restart of the broker', async (t) => {
  const broker = await startBroker(t, ...START);
  const settings = { transactionalId: 'shop', maxInFlightRequests: 1, idempotent: true };
  const transaction = await (await newProducer(broker, settings)).transaction();
  await transaction.send({ topic: 'orders', messages: [{ value: 'two apples' }] });
  await broker.changeNode(1, 'stopped');
  await broker.changeNode(1, 'running');
  assert.equal((await broker.transactions())[0].state, 'Ongoing');
  await transaction.send({ topic: 'orders', messages: [{ value: 'a pear' }] });
  await transaction.commit();
  assert.deepEqual(values(await broker.records('orders', 2)), ['two apples', 'a pear']);
});

test('an order is published', async (t) => {
  const broker = await startBroker(t, ...START);
  const producer = await newProducer(broker);
  const messages = [{ key: 'customer-7', value: 'two apples' }];
  await producer.send({ topic: 'orders', messages });
  const [order] = await broker.records('orders', 1);
  assert.deepEqual([order.key, order.value], ['customer-7', 'two apples']);
});
