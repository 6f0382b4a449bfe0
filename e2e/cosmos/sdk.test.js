// The Cosmos DB SDK for JavaScript, unmodified, against the endpoint: items
// live and go as the page on time to live says, in real seconds.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { ChangeFeedStartFrom, CosmosClient } from '@azure/cosmos';

const client = new CosmosClient({ endpoint: process.env.COSMOS_ENDPOINT, key: process.env.COSMOS_KEY });
let database;

before(async () => {
  ({ database } = await client.databases.createIfNotExists({ id: 'ttl' }));
});

after(async () => {
  await database.delete();
  client.dispose();
});

async function container(id, defaultTtl) {
  const { container } = await database.containers.create({ id, partitionKey: { paths: ['/pk'] }, defaultTtl });
  return container;
}

async function ids(c) {
  const { resources } = await c.items.query('SELECT VALUE c.id FROM c').fetchAll();
  return resources.sort();
}

async function count(c) {
  const { resources } = await c.items.query('SELECT VALUE COUNT(1) FROM c').fetchAll();
  return resources[0];
}

test('the matrix of container and item', async () => {
  const cells = { off: undefined, on: -1, three: 3 };
  const items = [{ id: 'absent' }, { id: 'never', ttl: -1 }, { id: 'two', ttl: 2 }, { id: 'hundred', ttl: 100 }];
  const containers = {};
  for (const [name, ttl] of Object.entries(cells)) {
    const c = (containers[name] = await container(name, ttl));
    for (const item of items) {
      await c.items.create({ pk: 'a', ...item });
    }
  }
  assert.equal(await count(containers.three), 4);
  await sleep(5200);
  assert.deepEqual(await ids(containers.off), ['absent', 'hundred', 'never', 'two']);
  assert.deepEqual(await ids(containers.on), ['absent', 'hundred', 'never']);
  assert.deepEqual(await ids(containers.three), ['hundred', 'never']);
  assert.equal(await count(containers.three), 2);
  const gone = await containers.three.item('absent', 'a').read();
  assert.equal(gone.statusCode, 404);
  assert.equal((await containers.three.items.create({ id: 'absent', pk: 'a' })).statusCode, 201);
  assert.equal((await containers.on.items.upsert({ id: 'two', pk: 'a' })).statusCode, 201);
});

test('a write restarts the clock, a patch of ttl moves it', async () => {
  const c = await container('clock', 4);
  await c.items.create({ id: 'touched', pk: 'a' });
  await c.items.create({ id: 'patched', pk: 'a' });
  await c.item('patched', 'a').patch([{ op: 'set', path: '/ttl', value: -1 }]);
  await sleep(2500);
  await c.items.upsert({ id: 'touched', pk: 'a', again: true });
  await sleep(2500);
  assert.deepEqual(await ids(c), ['patched', 'touched']);
  await sleep(2500);
  assert.deepEqual(await ids(c), ['patched']);
});

test('a wrong ttl is refused', async () => {
  const c = await container('wrong', 10);
  for (const ttl of [0, null, -10]) {
    await assert.rejects(c.items.create({ pk: 'a', ttl }), (e) => e.code === 400 && /The input ttl/.test(e.message));
  }
  await assert.rejects(container('zero', 0), (e) => e.code === 400);
});

test('feeds, pages, batches and bulk', async () => {
  const c = await container('work');
  const operations = [];
  for (let i = 0; i < 25; i++) {
    operations.push({ operationType: 'Create', partitionKey: i % 2 ? 'odd' : 'even', resourceBody: { id: String(i), pk: i % 2 ? 'odd' : 'even', n: i } });
  }
  const done = await c.items.executeBulkOperations(operations);
  assert.equal(done.length, 25);
  assert.ok(done.every((d) => d.response?.statusCode === 201));
  const { resources } = await c.items.query('SELECT * FROM c WHERE c.n >= 5 ORDER BY c.n DESC', { maxItemCount: 7 }).fetchAll();
  assert.deepEqual(resources.map((r) => r.n), Array.from({ length: 20 }, (_, i) => 24 - i));
  const { result } = await c.items.batch([
    { operationType: 'Create', resourceBody: { id: 'x', pk: 'odd' } },
    { operationType: 'Read', id: '1' },
    { operationType: 'Delete', id: '3' },
  ], 'odd');
  assert.deepEqual(result.map((r) => r.statusCode), [201, 200, 204]);
  const { resources: groups } = await c.items.query('SELECT c.pk, COUNT(1) AS n FROM c GROUP BY c.pk').fetchAll();
  assert.deepEqual(groups.map((g) => g.n).sort(), [12, 13]);
  const feed = c.items.getChangeFeedIterator({ changeFeedStartFrom: ChangeFeedStartFrom.Beginning(), maxItemCount: 10 });
  const changed = [];
  while (feed.hasMoreResults) {
    const page = await feed.readNext();
    if (page.statusCode === 304) break;
    changed.push(...page.result);
  }
  assert.equal(changed.length, 25);
  assert.equal(changed.filter((r) => r.pk === 'odd').at(-1).id, 'x'); // in order within a partition
  await c.item('0', 'even').patch([{ op: 'incr', path: '/n', value: 1 }]);
  const more = await feed.readNext();
  assert.deepEqual(more.result.map((r) => r.id), ['0']);
});
