// What time to live means, through the SDK for JavaScript in real seconds:
// what sdk.test.js leaves out of the list. The tests run side by side.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { ChangeFeedStartFrom, CosmosClient } from '@azure/cosmos';

const client = new CosmosClient({ endpoint: process.env.COSMOS_ENDPOINT, key: process.env.COSMOS_KEY });
let database;

before(async () => {
  ({ database } = await client.databases.create({ id: 'ttllist' }));
});

after(async () => {
  await database.delete();
  client.dispose();
});

const container = async (id, defaultTtl) => (await database.containers.create({ id, partitionKey: '/pk', defaultTtl })).container;
const create = (c, id, rest) => c.items.create({ id, pk: 'a', ...rest });
const status = (code) => (e) => e.code === code;

// Every way to see items has to agree.
async function alive(c, ...want) {
  const ids = (rows) => rows.map((r) => r.id ?? r).sort();
  assert.deepEqual(ids((await c.items.query('SELECT VALUE c.id FROM c').fetchAll()).resources), want);
  assert.deepEqual(ids((await c.items.query('SELECT VALUE c.id FROM c', { partitionKey: 'a' }).fetchAll()).resources), want);
  assert.deepEqual((await c.items.query('SELECT VALUE COUNT(1) FROM c').fetchAll()).resources, [want.length]);
  assert.deepEqual(ids((await c.items.readAll().fetchAll()).resources), want);
  const feed = await c.items.getChangeFeedIterator({ changeFeedStartFrom: ChangeFeedStartFrom.Beginning(), maxItemCount: 100 }).readNext();
  assert.deepEqual(ids(feed.result ?? []), want);
  for (const id of want) {
    assert.equal((await c.item(id, 'a').read()).statusCode, 200);
  }
}

async function setTtl(c, defaultTtl) {
  const { resource } = await c.read();
  const { resource: changed } = await c.replace({ ...resource, defaultTtl });
  assert.equal(changed.defaultTtl, defaultTtl ?? undefined);
}

describe('time to live', { concurrency: true }, () => {
  test('after an expiry: absent for every write but those that create', async () => {
    const c = await container('after', -1);
    for (const id of ['created', 'left', 'upserted']) {
      await create(c, id, { ttl: 1 });
    }
    await sleep(2500);
    await alive(c);
    await assert.rejects(c.item('left', 'a').replace({ id: 'left', pk: 'a' }), status(404));
    await assert.rejects(c.item('left', 'a').patch([{ op: 'set', path: '/x', value: 1 }]), status(404));
    await assert.rejects(c.item('left', 'a').delete(), status(404));
    assert.equal((await create(c, 'created')).statusCode, 201);
    assert.equal((await c.items.upsert({ id: 'upserted', pk: 'a' })).statusCode, 201);
    const batch = await c.items.batch([{ operationType: 'Create', resourceBody: { id: 'other', pk: 'a' } }, { operationType: 'Read', id: 'left' }], 'a');
    assert.deepEqual(batch.result.map((r) => r.statusCode), [424, 404]);
    await alive(c, 'created', 'upserted');
  });

  test('a definition that is replaced acts on what is there', async () => {
    const c = await container('definition');
    await create(c, 'old');
    await create(c, 'own', { ttl: 100 });
    await create(c, 'text', { ttl: '1h' });
    await sleep(4000);
    await setTtl(c, 100);
    await alive(c, 'old', 'own', 'text');
    await setTtl(c, 2);
    await alive(c, 'own');
    await setTtl(c, null);
    await create(c, 'one', { ttl: 1 });
    await sleep(2500);
    assert.equal((await c.item('one', 'a').read()).statusCode, 200);
    await setTtl(c, -1);
    assert.equal((await c.item('one', 'a').read()).statusCode, 404);
  });

  test('null is off for a container and wrong for an item', async () => {
    const c = await container('nulls', 100);
    await assert.rejects(create(c, '1', { ttl: null }), (e) => e.code === 400 && /The input ttl 'null'/.test(e.message));
    await setTtl(c, null);
    assert.equal((await create(c, '1', { ttl: null })).statusCode, 201);
  });

  test('indexing none and a defaultTtl exclude each other', async () => {
    const none = { indexingMode: 'none', automatic: false };
    await assert.rejects(database.containers.create({ id: 'none', partitionKey: '/pk', defaultTtl: 5, indexingPolicy: none }), status(400));
    const { container: c } = await database.containers.create({ id: 'none', partitionKey: '/pk', indexingPolicy: none });
    const { resource } = await c.read();
    await assert.rejects(c.replace({ ...resource, defaultTtl: 5 }), status(400));
  });

  test('a wrong ttl is refused by replace, upsert, patch, batch and bulk', async () => {
    const c = await container('wrong', 100);
    await create(c, '1');
    for (const ttl of [0, -2, '10', 1.5, 2147483648]) {
      await assert.rejects(c.item('1', 'a').replace({ id: '1', pk: 'a', ttl }), status(400));
      await assert.rejects(c.items.upsert({ id: '1', pk: 'a', ttl }), status(400));
      await assert.rejects(c.item('1', 'a').patch([{ op: 'set', path: '/ttl', value: ttl }]), status(400));
      const operation = { operationType: 'Upsert', resourceBody: { id: '1', pk: 'a', ttl } };
      assert.deepEqual((await c.items.batch([operation], 'a')).result.map((r) => r.statusCode), [400]);
      const [bulk] = await c.items.executeBulkOperations([{ ...operation, partitionKey: 'a' }]);
      assert.equal(bulk.response?.statusCode ?? bulk.error.code, 400);
    }
    assert.equal((await create(c, 'most', { ttl: 2147483647 })).statusCode, 201);
  });

  test('pages that span an expiry', async () => {
    const c = await container('pages', -1);
    for (let i = 0; i < 12; i++) {
      await create(c, String(i).padStart(2, '0'), i % 2 ? { ttl: 3 } : {});
    }
    const pages = c.items.query('SELECT VALUE c.id FROM c', { maxItemCount: 4, partitionKey: 'a' });
    const seen = [...(await pages.fetchNext()).resources];
    await sleep(5000);
    while (pages.hasMoreResults()) {
      seen.push(...((await pages.fetchNext()).resources ?? []));
    }
    assert.deepEqual(seen, ['00', '01', '02', '03', '04', '06', '08', '10']);
  });

  test('ttl taken away by a patch: the default holds, from that write on', async () => {
    const c = await container('patched', 4);
    await create(c, '1', { ttl: 1000 });
    await sleep(2000);
    await c.item('1', 'a').patch([{ op: 'remove', path: '/ttl' }]);
    await sleep(2000);
    await alive(c, '1');
    await sleep(4000);
    await alive(c);
  });
});
