// The console of a replica set's members, and of a cluster's router.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { MongoClient } from 'mongodb';
import { Browser, compare, done, look, markup } from './browser.js';
import { startCluster } from './cluster.js';
import { freePort } from './process.js';
import { primaryOf, startSet } from './set.js';
import { until } from './until.js';

let browser;
before(async () => (browser = await Browser.launch()));
after(() => browser?.close());

// Without access control nobody logs in.
async function visit(port, hash) {
  const page = await browser.open();
  const address = `http://localhost:${port}`;
  await until('the console', () => fetch(address).then((r) => r.ok, () => false));
  await page.goto(`${address}/${hash}`);
  return page;
}

test('a set: its members, another primary after a step-down, and a member that is down', async (t) => {
  const ports = [];
  const members = await startSet(t, 3, async () => ['--console', '--consolePort', (ports[ports.length] = await freePort())]);
  const consoleOf = (m) => ports[members.indexOf(m)];
  const first = await primaryOf(members);
  const page = await visit(consoleOf(first), '#/cluster');
  const row = (m) => page.getByRole('row').filter({ hasText: m.host });
  await row(first).getByText('PRIMARY').waitFor();
  for (const m of members.filter((x) => x !== first)) await row(m).getByText('SECONDARY').waitFor({ timeout: 15_000 });
  await look(page, 'set');
  await compare(page, 'set');

  await page.getByRole('button', { name: 'Step down' }).click();
  await page.getByText('{ replSetStepDown: 60 }').waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Step down' }).click();
  await row(first).getByText('SECONDARY').waitFor({ timeout: 15_000 });
  const second = await primaryOf(members);
  assert.notEqual(second, first);
  await row(second).getByText('PRIMARY').waitFor({ timeout: 15_000 });
  await page.getByRole('button', { name: 'Step down' }).waitFor({ state: 'detached' }); // one asks the primary

  // Streams: one that a program has open, and the changes of a collection as they happen.
  const client = await MongoClient.connect(`mongodb://${members.map((m) => m.host).join()}/?replicaSet=rs0`);
  t.after(() => client.close());
  const things = client.db('shop').collection(markup);
  await things.insertOne({ _id: 'first' });
  const watcher = client.db('shop').collection('followed').watch();
  const next = watcher.next().catch(() => undefined);
  const follower = await visit(consoleOf(second), '#/streams');
  await follower.getByRole('region', { name: 'Open streams' }).getByText('shop.followed').waitFor({ timeout: 10_000 });
  await follower.getByLabel('Database').fill('shop');
  await follower.getByLabel('Collection').fill(markup);
  await follower.getByRole('button', { name: 'Follow' }).click();
  await follower.getByText('Waits for a change').waitFor();
  await things.insertOne({ _id: markup, [markup.replaceAll('.', '')]: markup });
  await things.deleteOne({ _id: 'first' });
  const changes = follower.locator('.changes > li');
  await until('two changes', async () => (await changes.count()) === 2);
  assert.match(await changes.first().innerText(), /delete[^]*_id: "first"/);
  assert.match(await changes.nth(1).innerText(), /insert/);
  await changes.nth(1).locator('summary').first().click();
  await changes.nth(1).getByText('fullDocument').first().waitFor();
  await look(follower, 'streams');
  await compare(follower, 'streams');
  await follower.getByRole('button', { name: 'Stop' }).click();
  await changes.first().waitFor({ state: 'detached' });
  // The cursor ends with the page's interest in it.
  await until('the end of the cursor', async () => (await client.db('admin').command({ serverStatus: 1 })).metrics.changeStreams.open === 1);
  await client.db('shop').collection('followed').insertOne({});
  await next;
  await watcher.close();
  await client.close();
  await done(follower);

  // Health of a secondary: others are not taken for unreachable, nor the primary for missing.
  await page.getByRole('link', { name: 'Health' }).click();
  await page.getByText('Not asked from here').waitFor();
  assert.equal(await page.getByText('No primary').count(), 0);
  assert.equal(await page.getByText('Cannot be reached').count(), 0);

  const killed = members.find((m) => m !== first && m !== second);
  await killed.end('SIGKILL');
  await page.getByRole('link', { name: 'Cluster' }).click();
  await row(killed).getByText('not heard of since').waitFor({ timeout: 20_000 });
  await page.getByRole('link', { name: 'Health' }).click();
  await page.getByRole('listitem').filter({ hasText: 'A member is down' }).getByText(killed.host, { exact: false }).first().waitFor();
  await page.getByText('One more failure stops the set').first().waitFor();
  await done(page);
});

test('a cluster: shards, where chunks lie, a chunk that moves, and the balancer', async (t) => {
  const port = await freePort();
  const { routers: [router] } = await startCluster(t, { shards: 2, routers: 1, names: ['s0', '$1'], routerOptions: ['--console', '--consolePort', port] });
  const client = await MongoClient.connect(router.uri);
  t.after(() => client.close());
  const admin = client.db('admin');
  const ns = `shop.${markup}`;
  await admin.command({ addShardToZone: 's0', zone: markup });
  await admin.command({ shardCollection: ns, key: { _id: 'hashed' } });
  await client.db('shop').collection(markup).insertMany(Array.from({ length: 1000 }, (_, i) => ({ _id: i })));
  await admin.command({ shardCollection: 'shop.ordered', key: { at: 1 } });
  await admin.command({ balancerStop: 1 });

  const page = await visit(port, '#/cluster');
  await page.getByText('Off: nothing moves').waitFor();
  await page.getByRole('region', { name: 'Shards' }).getByText(markup).first().waitFor(); // the zone
  await look(page, 'cluster');
  await page.getByRole('button', { name: 'Start the balancer' }).click();
  await page.getByText('{ balancerStart: 1 }').waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Start the balancer' }).click();
  await page.getByRole('button', { name: 'Stop the balancer' }).waitFor();
  await until('the balancer', async () => (await admin.command({ balancerStatus: 1 })).mode === 'full');
  await page.getByRole('button', { name: 'Stop the balancer' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Stop the balancer' }).click();
  await page.getByText('Off: nothing moves').waitFor();

  await page.getByRole('link', { name: ns }).click();
  const chunksOf = async (shard) => (await page.getByRole('row').filter({ has: page.getByRole('rowheader', { name: shard, exact: true }) }).getByRole('cell').first().innerText());
  await page.getByText('4 chunks').waitFor();
  assert.deepEqual([await chunksOf('s0'), await chunksOf('$1')], ['2', '2']);
  // The keyboard goes from shard to shard.
  await page.locator('canvas').focus();
  await page.keyboard.press('ArrowRight');
  await page.getByText('from -9223372036854775808: $1').waitFor();
  await page.keyboard.press('ArrowRight');
  await page.getByText('from 0: s0').waitFor();
  // As the circle is drawn: its right half is of one colour, its left of another.
  const colours = () => page.evaluate(() => {
    const c = document.querySelector('canvas');
    const at = (x) => [...c.getContext('2d').getImageData(Math.round(c.width * x), c.height / 2 | 0, 1, 1).data].join();
    return [at(0.84), at(0.16)];
  });
  await page.locator('canvas').blur();
  const [right, left] = await colours();
  assert.notEqual(right, left);
  assert.ok(!right.endsWith(',0') && !left.endsWith(',0'), 'nothing is drawn');
  await look(page, 'chunks');
  await compare(page, 'chunks');
  const { cursor: { firstBatch: [chunk] } } = await client.db('config').command({ find: 'chunks', filter: { shard: 's0' }, sort: { min: -1 }, limit: 1 }, { promoteLongs: false });
  await admin.command({ moveRange: ns, min: chunk.min, max: chunk.max, toShard: '$1' });
  await until('the move in the page', async () => (await chunksOf('s0')) === '1' && (await chunksOf('$1')) === '3');
  await page.getByText('Balanced', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Keep it where it is' }).click();
  await page.getByText(/configureCollectionBalancing: /).waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Keep it where it is' }).click();
  await page.getByRole('button', { name: 'Balance it' }).waitFor();
  assert.equal((await client.db('config').collection('collections').findOne({ _id: ns })).noBalance, true);

  // More chunks than are read one by one: the server counts them.
  const many = 12_000;
  await admin.command({ shardCollection: 'shop.many', key: { _id: 'hashed' }, numInitialChunks: many });
  let bytes = 0;
  page.on('response', async (r) => (bytes += r.url().endsWith('/api/run') ? (await r.body()).length : 0));
  await page.goto(`http://localhost:${port}/#/cluster/shop/many`);
  await page.getByText('12,000 chunks').waitFor();
  // What is sent, and what is in the page, does not grow with their number.
  assert.ok(bytes > 10_000 && bytes < 700_000, `${bytes} bytes`);
  assert.ok(await page.evaluate(() => document.querySelectorAll('*').length) < 200);
  assert.deepEqual([await chunksOf('s0'), await chunksOf('$1')], ['6,000', '6,000']);
  await page.locator('canvas').focus();
  await page.keyboard.press('ArrowRight');
  await page.getByText('from -9223372036854775808: $1').waitFor();
  await page.keyboard.press('ArrowRight');
  await page.getByText('from 0: s0').waitFor();

  // A collection that lies on one shard moves, a megabyte a second: how far it is, and how long it takes.
  await page.goto(`http://localhost:${port}/#/cluster/shop/ordered`);
  await page.getByText('1 chunk', { exact: true }).waitFor();
  await client.db('shop').collection('ordered').insertMany(Array.from({ length: 280 }, (_, i) => ({ at: i, text: 'x'.repeat(100_000) })));
  await client.db('config').collection('settings').updateOne({ _id: 'balancer' }, { $set: { maxMBPerSecond: 1 } }, { upsert: true });
  await admin.command({ configureCollectionBalancing: 'shop.ordered', chunkSize: 8 });
  await admin.command({ balancerStart: 1 });
  await until('a chunk that moves', async () => {
    await page.reload();
    await page.getByText('Uneven').waitFor();
    return (await page.getByRole('progressbar').count()) > 0 && (await page.getByText(/MB still to move · about .* left/).count()) > 0;
  });
  assert.match(await page.locator('.move').first().innerText(), /^s0 → \$1: .* of .*MB$|^\$1 → s0: .* of .*MB$/);
  await look(page, 'moving');
  await admin.command({ balancerStop: 1 });
  await page.getByRole('link', { name: 'Health' }).click();
  await page.getByText('The balancer is off').first().waitFor();
  assert.equal(await page.getByText('A member is down').count(), 0);
  await done(page);
});
