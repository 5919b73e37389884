// The broker serves a description of its control API. Every route and field of the client is in it.
import assert from 'node:assert/strict';
import test from 'node:test';
import { routes, startBroker } from './kafkalite.js';

test('the client agrees with the description of the control API', async (t) => {
  const broker = await startBroker(t);
  const { paths } = await (await fetch(`${broker.controlUrl}/v1/openapi.json`)).json();
  for (const [method, path, fields] of Object.values(routes)) {
    const operation = paths[path]?.[method.toLowerCase()];
    assert.ok(operation, `${method} ${path}`);
    const body = operation.requestBody?.content['application/json'].schema.properties ?? {};
    const query = operation.parameters.map((parameter) => parameter.name);
    for (const field of fields) {
      assert.ok(field in body || query.includes(field), `${method} ${path}: ${field}`);
    }
  }
});
