// A Kafka broker for tests, and a client of its control API. Copy this file.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

/** The requests that this client sends: method, path, and the fields of its body or query. */
export const routes = {
  changeClock: ['POST', '/v1/clock', ['advance']],
  addFault: ['POST', '/v1/faults', ['match', 'trigger', 'action']],
  faults: ['GET', '/v1/faults', []],
  removeFault: ['DELETE', '/v1/faults/{fault_id}', []],
  produce: ['POST', '/v1/topics/{topic}/records', ['records']],
  records: ['GET', '/v1/topics/{topic}/records', ['count', 'wait_ms']],
  group: ['GET', '/v1/groups/{group}', ['state', 'members', 'wait_ms']],
  transactions: ['GET', '/v1/transactions', []],
  changeNode: ['POST', '/v1/nodes/{node_id}', ['state']],
  setQuotas: ['POST', '/v1/quotas', ['client_id', 'quotas']],
  explain: ['GET', '/v1/explain', ['group', 'transactional_id', 'topic', 'client']],
  requests: ['GET', '/v1/requests', ['api', 'topic', 'group', 'client_id']],
  expect: [
    'POST',
    '/v1/requests/expect',
    ['api', 'topic', 'group', 'client_id', 'fields', 'times', 'at_least', 'never', 'within_ms'],
  ],
};

const WAIT_MS = 20_000;

/**
 * Starts a broker with options of `kafkalite serve`; it stops at the end of the test `t`. The
 * command is that of the variable KAFKALITE_COMMAND, by default kafkalite.
 */
export async function startBroker(t, ...options) {
  const [program, ...words] = (process.env.KAFKALITE_COMMAND ?? 'kafkalite').split(' ');
  const serve = ['serve', '--listen', 'localhost:0', '--control', '127.0.0.1:0'];
  const child = spawn(program, [...words, ...serve, '--log-level', 'warning', ...options], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let broker;
  t.after(async () => {
    await Promise.all((broker?.callbacks ?? []).map((callback) => callback()));
    child.kill();
  });
  broker = await new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', () => reject(new Error('the broker did not start')));
    let servers;
    createInterface({ input: child.stdout }).on('line', (line) => {
      servers ??= line.match(/^kafkalite is ready at (.*)/)?.[1].split(',');
      const url = line.match(/^ {2}control at (\S+)/)?.[1];
      if (url !== undefined) {
        resolve(new Broker(servers, url));
      }
    });
  });
  return broker;
}

export class Broker {
  constructor(servers, controlUrl) {
    /** The addresses for `brokers` of kafkajs. */
    this.servers = servers;
    this.controlUrl = controlUrl;
    this.callbacks = [];
  }

  /** Calls a function before the broker stops, such as the disconnect of a client. */
  beforeStop(callback) {
    this.callbacks.push(callback);
  }

  /** Advances the clock, such as by '7d'; all timers that are due have run when it resolves. */
  advance(duration) {
    return this.send(routes.changeClock, '', { advance: duration });
  }

  /** Adds a fault for the requests from now on: `{ match, trigger, action }`. */
  addFault(fault) {
    return this.send(routes.addFault, '', fault);
  }

  /** Returns a fault with the numbers of its matches and firings. */
  async fault(id) {
    const { faults } = await this.send(routes.faults);
    return faults.find((fault) => fault.id === id);
  }

  /** Removes a fault, and returns it with its final numbers. */
  removeFault(id) {
    return this.send(routes.removeFault, id);
  }

  /** Writes records without keys. */
  produce(topic, ...values) {
    return this.send(routes.produce, topic, { records: values.map((value) => ({ value })) });
  }

  /** Returns the records of a topic when there are this many. */
  async records(topic, count = 0) {
    const fields = { count, wait_ms: WAIT_MS };
    const { records } = await this.send(routes.records, topic, fields);
    if (records.length < count) {
      throw new Error(`${records.length} records in ${topic}, not ${count}`);
    }
    return records;
  }

  /** Returns a group with its members, committed offsets and lag. */
  group(id) {
    return this.send(routes.group, id);
  }

  /** Waits until a group has this state and this many members. */
  async waitForGroup(id, state, members) {
    const fields = { state, members, wait_ms: WAIT_MS };
    const group = await this.send(routes.group, id, fields);
    if (group.state !== state || group.members.length !== members) {
      throw new Error(`group ${id} is ${group.state} with ${group.members.length} members`);
    }
    return group;
  }

  /** Returns all transactional ids. */
  async transactions() {
    return (await this.send(routes.transactions)).transactions;
  }

  /** Changes a node: 'stopped' as if its process was killed, or 'running'. */
  changeNode(id, state) {
    return this.send(routes.changeNode, String(id), { state });
  }

  /** Sets quotas of a client id, such as `{ producer_byte_rate: 10000 }`. */
  setQuotas(clientId, quotas) {
    return this.send(routes.setQuotas, '', { client_id: clientId, quotas });
  }

  /** Returns the history of `{ group }`, `{ transactional_id }`, `{ topic }` or `{ client }`. */
  async explain(subject) {
    return (await this.send(routes.explain, '', subject)).entries;
  }

  /** Returns logged requests; the log begins with the first call. */
  async requests(conditions = {}) {
    return (await this.send(routes.requests, '', conditions)).requests;
  }

  /** Rejects with the nearest requests, unless requests meet the expectation. */
  async expect(expectation) {
    const { met, text } = await this.send(routes.expect, '', expectation);
    if (!met) {
      throw new Error(text);
    }
  }

  async send([method, path, names], name = '', fields = {}) {
    const unknown = Object.keys(fields).filter((field) => !names.includes(field));
    if (unknown.length > 0) {
      throw new TypeError(`${method} ${path} is not called with ${unknown}`);
    }
    const url = new URL(path.replace(/\{\w+\}/, encodeURIComponent(name)), this.controlUrl);
    const request = { method };
    if (method === 'GET') {
      url.search = new URLSearchParams(fields);
    } else if (method === 'POST') {
      request.headers = { 'Content-Type': 'application/json' };
      request.body = JSON.stringify(fields);
    }
    const response = await fetch(url, request);
    const answer = await response.json();
    if (!response.ok && response.status !== 409) {
      throw new Error(`${method} ${url.pathname}: ${answer.error}`);
    }
    return answer;
  }
}
