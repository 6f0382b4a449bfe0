// Every kind of resource and operation through the SDK for JavaScript: what the
// service answers, and with which status.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  ChangeFeedMode, ChangeFeedPolicy, ChangeFeedRetentionTimeSpan, ChangeFeedStartFrom, CosmosClient, PartitionKeyBuilder,
} from '@azure/cosmos';

const endpoint = process.env.COSMOS_ENDPOINT;
const client = new CosmosClient({ endpoint, key: process.env.COSMOS_KEY });
const dbID = 'resources';
let database;
let items;

before(async () => {
  ({ database } = await client.databases.create({ id: dbID }));
  ({ container: items } = await database.containers.create({
    id: 'items', partitionKey: '/pk', uniqueKeyPolicy: { uniqueKeys: [{ paths: ['/mail'] }] },
  }));
});

after(async () => {
  await database.delete();
  client.dispose();
});

const status = (code) => (e) => {
  assert.equal(e.code, code, e.message);
  return true;
};
const rows = async (container, query, options) => (await container.items.query(query, options).fetchAll()).resources;

test('databases: queried by parameters, read with a charge', async () => {
  const found = await client.databases.query({ query: 'SELECT * FROM root r WHERE r.id = @id', parameters: [{ name: '@id', value: dbID }] }).fetchAll();
  assert.equal(found.resources.length, 1);
  const read = await database.read();
  assert.ok(read.requestCharge > 0 && read.activityId);
  assert.equal((await client.getDatabaseAccount()).resource.consistencyPolicy, process.env.COSMOS_CONSISTENCY ?? 'Strong');
});

test('offers: fixed, autoscale, of a database; replaced', async () => {
  const { container } = await database.containers.create({ id: 'fixed', partitionKey: '/pk', throughput: 500 });
  const { resource, offer } = await container.readOffer();
  assert.equal(resource.content.offerThroughput, 500);
  await offer.replace({ ...resource, content: { ...resource.content, offerThroughput: 600 } });
  assert.equal((await container.readOffer()).resource.content.offerThroughput, 600);
  const { container: scaled } = await database.containers.create({ id: 'scaled', partitionKey: '/pk', maxThroughput: 4000 });
  assert.equal((await scaled.readOffer()).resource.content.offerAutopilotSettings.maxThroughput, 4000);
});

test('hierarchical partition keys: points, prefixes, absent and null components', async () => {
  const { container } = await database.containers.create({ id: 'tree', partitionKey: { paths: ['/t', '/u', '/s'], kind: 'MultiHash', version: 2 } });
  for (const [t, u, s] of [['a', 'x', '1'], ['a', 'x', '2'], ['a', 'y', '1'], ['b', 'x', '1']]) {
    await container.items.create({ id: t + u + s, t, u, s });
  }
  assert.equal((await container.item('ax1', ['a', 'x', '1']).read()).resource.s, '1');
  assert.equal((await rows(container, 'SELECT VALUE c.id FROM c', { partitionKey: ['a'] })).length, 3);
  assert.equal((await rows(container, 'SELECT VALUE c.id FROM c', { partitionKey: ['a', 'x'] })).length, 2);
  assert.deepEqual(await rows(container, "SELECT VALUE COUNT(1) FROM c WHERE c.t = 'a'"), [3]);
  await assert.rejects(container.item('ax1', ['a', 'x']).delete(), status(400));
  const key = new PartitionKeyBuilder().addValue('z').addNoneValue().addNullValue().build();
  await container.items.create({ id: 'zz', t: 'z', s: null });
  assert.equal((await container.item('zz', key).read()).resource.id, 'zz');
  await container.deleteAllItemsForPartitionKey(['a', 'x', '1']);
  assert.equal((await rows(container, 'SELECT VALUE c.id FROM c', { partitionKey: ['a'] })).length, 2);
});

test('partition keys of all types, and none', async () => {
  await items.items.create({ id: 'none', mail: 'none' });
  assert.equal((await items.item('none', undefined).read()).resource.id, 'none');
  for (const [id, pk] of [['null', null], ['number', 5], ['text', '5'], ['bool', true]]) {
    await items.items.create({ id, pk, mail: id });
    assert.equal((await items.item(id, pk).read()).resource.id, id);
  }
  assert.equal((await items.item('text', 5).read()).statusCode, 404);
  const { container } = await database.containers.create({ id: 'keyless' });
  await container.items.create({ id: '1', v: 1 });
  await container.items.upsert({ id: '1', v: 2 });
  assert.equal((await container.item('1').read()).resource.v, 2);
});

test('unique keys hold within a partition', async () => {
  await items.items.create({ id: '1', pk: 'u', mail: 'm' });
  await assert.rejects(items.items.create({ id: '2', pk: 'u', mail: 'm' }), status(409));
  await assert.rejects(items.items.upsert({ id: '2', pk: 'u', mail: 'm' }), status(409));
  await items.items.create({ id: '1', pk: 'v', mail: 'm' });
});

test('etags: If-Match and If-None-Match', async () => {
  const { resource } = await items.items.create({ id: 'e', pk: 'e', mail: 'e' });
  const item = items.item('e', 'e');
  const wrong = { accessCondition: { type: 'IfMatch', condition: '"x"' } };
  await assert.rejects(item.replace({ ...resource, v: 1 }, wrong), status(412));
  await assert.rejects(item.delete(wrong), status(412));
  await assert.rejects(items.items.upsert(resource, wrong), status(412));
  const { resource: next } = await item.replace({ ...resource, v: 1 }, { accessCondition: { type: 'IfMatch', condition: resource._etag } });
  assert.notEqual(next._etag, resource._etag);
  assert.equal((await item.read({ accessCondition: { type: 'IfNoneMatch', condition: next._etag } })).statusCode, 304);
});

test('patch: all operations, conditions, bounds', async () => {
  await items.items.create({ id: 'p', pk: 'p', mail: 'p', n: 1, tags: ['a', 'b'], o: { k: 1 } });
  const item = items.item('p', 'p');
  const { resource } = await item.patch([
    { op: 'add', path: '/tags/1', value: 'z' }, { op: 'add', path: '/tags/-', value: 'e' }, { op: 'set', path: '/tags/0', value: 'A' },
    { op: 'replace', path: '/o/k', value: 2 }, { op: 'incr', path: '/n', value: 1.5 }, { op: 'incr', path: '/fresh', value: 3 },
    { op: 'add', path: '/o/new', value: null }, { op: 'move', from: '/o/k', path: '/moved' },
  ]);
  const { tags, n, fresh, moved, o } = resource;
  assert.deepEqual({ tags, n, fresh, moved, o }, { tags: ['A', 'z', 'b', 'e'], n: 2.5, fresh: 3, moved: 2, o: { new: null } });
  await item.patch({ condition: 'from c where c.n > 2', operations: [{ op: 'remove', path: '/moved' }] });
  await assert.rejects(item.patch({ condition: 'from c where c.n > 200', operations: [{ op: 'remove', path: '/n' }] }), status(412));
  for (const op of [
    { op: 'remove', path: '/nope' }, { op: 'replace', path: '/nope', value: 1 }, { op: 'set', path: '/pk', value: 'b' }, { op: 'set', path: '/id', value: 'b' },
    { op: 'add', path: '/tags/9', value: 1 }, { op: 'add', path: '/q/w', value: 1 },
  ]) {
    await assert.rejects(item.patch([op]), status(400), JSON.stringify(op));
  }
  await assert.rejects(item.patch(Array.from({ length: 11 }, () => ({ op: 'set', path: '/a', value: 1 }))), status(400));
  await assert.rejects(items.item('nope', 'p').patch([{ op: 'set', path: '/a', value: 1 }]), status(404));
});

test('batches are all or nothing', async () => {
  const done = await items.items.batch([
    { operationType: 'Create', resourceBody: { id: 'b1', pk: 'b', mail: '1' } }, { operationType: 'Upsert', resourceBody: { id: 'b2', pk: 'b', mail: '2' } },
    { operationType: 'Read', id: 'b1' }, { operationType: 'Replace', id: 'b2', resourceBody: { id: 'b2', pk: 'b', mail: '3' } },
    { operationType: 'Patch', id: 'b1', resourceBody: { operations: [{ op: 'add', path: '/v', value: 1 }] } }, { operationType: 'Delete', id: 'b2' },
  ], 'b');
  assert.deepEqual(done.result.map((r) => r.statusCode), [201, 201, 200, 200, 200, 204]);
  const failed = await items.items.batch([
    { operationType: 'Create', resourceBody: { id: 'b9', pk: 'b', mail: '9' } }, { operationType: 'Create', resourceBody: { id: 'b1', pk: 'b' } },
  ], 'b');
  assert.deepEqual(failed.result.map((r) => r.statusCode), [424, 409]);
  assert.equal((await items.item('b9', 'b').read()).statusCode, 404);
});

test('bulk, pages, order and aggregates', async () => {
  const { container } = await database.containers.create({ id: 'bulk', partitionKey: '/pk' });
  const operations = Array.from({ length: 150 }, (_, i) => ({ operationType: 'Create', partitionKey: `k${i % 7}`, resourceBody: { id: `k${i}`, pk: `k${i % 7}`, n: i } }));
  assert.ok((await container.items.executeBulkOperations(operations)).every((r) => r.response?.statusCode === 201));
  let seen = 0;
  for (const feed = container.items.readAll({ maxItemCount: 50 }); feed.hasMoreResults();) {
    seen += (await feed.fetchNext()).resources?.length ?? 0;
  }
  assert.equal(seen, 150);
  let token;
  seen = 0;
  do {
    const page = await container.items.query('SELECT * FROM c', { maxItemCount: 5, continuationToken: token, partitionKey: 'k1' }).fetchNext();
    seen += page.resources.length;
    token = page.continuationToken;
  } while (token);
  assert.equal(seen, 22);
  const ordered = await rows(container, 'SELECT VALUE c.n FROM c ORDER BY c.n DESC', { maxItemCount: 20 });
  assert.deepEqual(ordered, Array.from({ length: 150 }, (_, i) => 149 - i));
  assert.equal((await rows(container, 'SELECT VALUE c.n FROM c WHERE c.pk = "k1" ORDER BY c.n', { forceQueryPlan: true })).length, 22);
  assert.equal((await rows(container, 'SELECT VALUE c.n FROM c WHERE c.pk = "k1"', { forceQueryPlan: true })).length, 22);
  assert.deepEqual(await rows(container, 'SELECT VALUE AVG(c.n) FROM c'), [74.5]);
  assert.equal((await rows(container, 'SELECT c.pk, COUNT(1) AS n FROM c GROUP BY c.pk')).length, 7);
  assert.equal((await rows(container, 'SELECT DISTINCT VALUE c.pk FROM c')).length, 7);
  assert.equal((await rows(container, 'SELECT * FROM c OFFSET 2 LIMIT 3')).length, 3);
  const measured = await container.items.query('SELECT * FROM c WHERE c.n > 5', { populateQueryMetrics: true, populateIndexMetrics: true }).fetchAll();
  assert.ok(measured.queryMetrics && measured.indexMetrics.includes('/n/?'));
});

test('ids, numbers, sizes', async () => {
  for (const id of ['a b', 'ä€😀', 'a%b', 'a+b', 'a&b=c', '"q"', "it's", 'a.b', '$x', '[1]']) {
    await items.items.create({ id, pk: 'odd', mail: id });
    assert.equal((await items.item(id, 'odd').read()).resource?.id, id);
  }
  const numbers = { a: 9007199254740991, b: -9007199254740991, c: 1.5, d: 1e21, e: 1e-7, f: 0.1, g: 1e308, h: 5e-324 };
  await items.items.create({ id: 'numbers', pk: 'n', mail: 'n', ...numbers });
  const { resource } = await items.item('numbers', 'n').read();
  for (const [name, n] of Object.entries(numbers)) {
    assert.equal(resource[name], n);
  }
  await items.items.create({ id: 'big', pk: 'n', mail: 'big', s: 'x'.repeat(2 * 1024 * 1024 - 1000) });
  await assert.rejects(items.items.create({ id: 'bigger', pk: 'n', s: 'x'.repeat(2 * 1024 * 1024 + 10) }), status(413));
});

test('users, permissions, resource tokens', async () => {
  await items.items.upsert({ id: 'seen', pk: 't', mail: 'seen' });
  const { user } = await database.users.create({ id: 'u1' });
  const { resource: read, permission } = await user.permissions.create({ id: 'p1', permissionMode: 'Read', resource: items.url });
  const reader = new CosmosClient({ endpoint, resourceTokens: { [items.url]: read._token } });
  const same = reader.database(dbID).container('items');
  assert.equal((await same.item('seen', 't').read()).resource.id, 'seen');
  await assert.rejects(same.items.create({ id: 'x', pk: 't' }), status(403));
  assert.equal((await user.permissions.readAll().fetchAll()).resources.length, 1);
  assert.equal((await permission.replace({ id: 'p1', permissionMode: 'All', resource: items.url })).resource.permissionMode, 'All');
  await permission.delete();
  await user.replace({ id: 'u2' });
  await database.user('u2').delete();
  reader.dispose();
});

test('change feed: a partition, from now, from a time, from a continuation', async () => {
  const { container } = await database.containers.create({ id: 'feed', partitionKey: '/pk' });
  for (let i = 0; i < 12; i++) {
    await container.items.create({ id: String(i), pk: i % 2 ? 'odd' : 'even' });
  }
  const read = async (from, maxItemCount = 100) => container.items.getChangeFeedIterator({ changeFeedStartFrom: from, maxItemCount }).readNext();
  assert.equal((await read(ChangeFeedStartFrom.Beginning('odd'))).result.length, 6);
  // A page is of one partition key range.
  const all = container.items.getChangeFeedIterator({ changeFeedStartFrom: ChangeFeedStartFrom.Time(new Date(Date.now() - 3600e3)) });
  let seen = 0;
  for (let page = await all.readNext(); page.statusCode === 200; page = await all.readNext()) {
    seen += page.result.length;
  }
  assert.equal(seen, 12);
  const now = container.items.getChangeFeedIterator({ changeFeedStartFrom: ChangeFeedStartFrom.Now() });
  assert.equal((await now.readNext()).statusCode, 304);
  await container.items.create({ id: 'late', pk: 'odd' });
  const late = await now.readNext();
  assert.deepEqual(late.result.map((r) => r.id), ['late']);
  assert.equal((await read(ChangeFeedStartFrom.Continuation(late.continuationToken))).statusCode, 304);
});

test('change feed: all versions and deletes, with what time to live removes', async () => {
  const { container } = await database.containers.create({
    id: 'versions', partitionKey: '/pk', defaultTtl: 2, changeFeedPolicy: new ChangeFeedPolicy(ChangeFeedRetentionTimeSpan.fromMinutes(5)),
  });
  const feed = container.items.getChangeFeedIterator({ changeFeedMode: ChangeFeedMode.AllVersionsAndDeletes, changeFeedStartFrom: ChangeFeedStartFrom.Now() });
  assert.equal((await feed.readNext()).statusCode, 304);
  await container.items.create({ id: '1', pk: 'a' });
  await container.items.upsert({ id: '1', pk: 'a', v: 2, ttl: -1 });
  await container.items.create({ id: '2', pk: 'a' });
  await container.item('1', 'a').delete();
  const written = await feed.readNext();
  assert.deepEqual(written.result.map((r) => r.metadata.operationType), ['create', 'replace', 'create', 'delete']);
  assert.equal(written.result[1].previous.id, '1');
  let expired;
  for (let i = 0; i < 250 && !expired; i++) {
    await sleep(500);
    const page = await feed.readNext();
    expired = page.statusCode === 200 ? page.result[0] : undefined;
  }
  assert.equal(expired.metadata.timeToLiveExpired, true);
  assert.equal(expired.metadata.id, '2');
});

test('computed properties; what is refused', async () => {
  const { container } = await database.containers.create({
    id: 'computed', partitionKey: '/pk', computedProperties: [{ name: 'low', query: 'SELECT VALUE LOWER(c.name) FROM c' }],
  });
  await container.items.create({ id: '1', pk: 'a', name: 'ABC' });
  assert.deepEqual(await rows(container, 'SELECT VALUE c.low FROM c'), ['abc']);
  await assert.rejects(container.scripts.storedProcedures.create({ id: 's', body: 'function () {}' }), status(403));
  assert.deepEqual((await container.scripts.triggers.readAll().fetchAll()).resources, []);
  await assert.rejects(rows(container, 'SELECT * FROM c WHERE', { partitionKey: 'a' }), status(400));
  await assert.rejects(client.database('nope').containers.create({ id: 'x' }), status(404));
  const wrong = new CosmosClient({ endpoint, key: Buffer.from('nope').toString('base64') });
  await assert.rejects(wrong.databases.readAll().fetchAll(), status(401));
  wrong.dispose();
});
