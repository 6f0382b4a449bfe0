// How fast the console is, as the browser measures it: make bench-console prints a table. It is no test: figures
// are of the machine, which must have nothing else to do.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { Long, MaxKey, MinKey, MongoClient, ObjectId, Timestamp } from 'mongodb';
import { Browser } from './browser.js';
import { startCluster } from './cluster.js';
import { freePort, Process } from './process.js';
import { until } from './until.js';

const collections = Number(process.env.COLLECTIONS ?? 10_000);
const chunks = Number(process.env.CHUNKS ?? 1_000_000);

const ended = [];
const after = (what) => ended.unshift(what);
const row = (what, value, bound) => console.log(`| ${what} | ${value} | ${bound} |`);

// The milliseconds until something is seen in a new page, and until the page had painted something.
async function view(browser, address, ready) {
  const page = await browser.open();
  await page.goto(address);
  await ready(page).waitFor({ timeout: 60_000 });
  const times = [];
  for (let i = 0; i < 5; i++) {
    await page.reload({ waitUntil: 'commit' });
    await ready(page).waitFor({ timeout: 60_000 });
    times.push(await page.evaluate(() => performance.now()));
  }
  const paint = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0);
  return { page, seen: times.sort((a, b) => a - b)[2], paint };
}

// What part of a second a process has worked, over some seconds.
async function busy(pid, seconds) {
  const ticks = () => fs.readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ').slice(11, 13).reduce((n, t) => n + Number(t), 0);
  const before = ticks();
  await new Promise((r) => setTimeout(r, seconds * 1000));
  return (ticks() - before) / 100 / seconds;
}

// The frames a second, and the longest one, while something goes on for some milliseconds.
async function frames(page, millis, act) {
  await page.evaluate(() => {
    globalThis.frames = [];
    const tick = (at) => globalThis.frames.push(at) && requestAnimationFrame(tick);
    requestAnimationFrame(tick);
  });
  const end = Date.now() + millis;
  for (let i = 0; Date.now() < end; i++) await act(i);
  const all = await page.evaluate(() => globalThis.frames);
  const gaps = all.slice(1).map((at, i) => at - all[i]);
  return { rate: (1000 * gaps.length) / (all.at(-1) - all[0]), longest: Math.max(...gaps) };
}

async function oneServer(browser) {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'console-'));
  const [port, consolePort] = [await freePort(), await freePort()];
  const server = new Process(port, ['serve', '--dbpath', dir, '--console', '--consolePort', consolePort], path.join(dir, 'log'));
  after(async () => {
    await server.end('SIGTERM');
    fs.rmSync(dir, { recursive: true });
  });
  const base = `http://localhost:${consolePort}`;
  await until('the console', () => fetch(base).then((r) => r.ok, () => false));
  const client = await MongoClient.connect(`mongodb://127.0.0.1:${port}`);
  after(() => client.close());
  await client.db('shop').collection('sessions').createIndex({ at: 1 }, { expireAfterSeconds: 0 });
  await client.db('shop').collection('sessions').insertMany(Array.from({ length: 10_000 }, (_, i) => ({ at: new Date(Date.now() + i * 10_000) })));
  const first = await view(browser, base, (p) => p.getByRole('link', { name: 'shop.sessions' }));
  row('first view: what leaves, with its rules', `${Math.round(first.seen)} ms, first paint after ${Math.round(first.paint)} ms`, '300 ms');
  await first.page.waitForTimeout(15_000); // it settles
  row('server with that page open', `${(100 * (await busy(server.process.pid, 20))).toFixed(2)} % of a processor`, '1 %');
  await first.page.goto(`${base}/#/operations`);
  await first.page.waitForTimeout(10_000);
  row('server with Operations open', `${(100 * (await busy(server.process.pid, 20))).toFixed(2)} % of a processor`, '1 %');
  await first.page.close();
  row('server without a page', `${(100 * (await busy(server.process.pid, 20))).toFixed(2)} % of a processor`, '');

  for (let n = 0; n < collections; n += 100) await Promise.all(Array.from({ length: 100 }, (_, i) => client.db(`many${n % 1000}`).createCollection(`collection_${n + i}`)));
  const list = await view(browser, `${base}/#/data`, (p) => p.getByText(/^[\d,]+ collections$/));
  row(`${collections} collections listed`, `${Math.round(list.seen)} ms`, '');
  const search = list.page.getByRole('searchbox');
  const typed = await frames(list.page, 3000, (i) => search.fill(`many ${i % 1000}`));
  row('while they are searched', `${Math.round(typed.rate)} frames a second, the longest ${Math.round(typed.longest)} ms`, '30');
  const scrolled = await frames(list.page, 3000, async (i) => {
    if (i === 0) await search.fill('');
    await list.page.mouse.wheel(0, 4000);
  });
  row('while one scrolls', `${Math.round(scrolled.rate)} frames a second, the longest ${Math.round(scrolled.longest)} ms`, '30');
  row('elements in that page', await list.page.evaluate(() => document.querySelectorAll('*').length), '');
}

async function manyChunks(browser) {
  const port = await freePort();
  const { config, routers: [router] } = await startCluster({ after }, { shards: 2, routers: 1, routerOptions: ['--console', '--consolePort', port] });
  const client = await MongoClient.connect(router.uri);
  after(() => client.close());
  await client.db('admin').command({ balancerStop: 1 });
  await client.db('admin').command({ shardCollection: 'shop.map', key: { _id: 'hashed' } });
  // Chunks that nobody made: the page reads what config has.
  const { uuid } = await client.db('config').collection('collections').findOne({ _id: 'shop.map' });
  const direct = await MongoClient.connect(`mongodb://${config.host}/?directConnection=true`);
  after(() => direct.close());
  const width = (1n << 64n) / BigInt(chunks);
  const bound = (i) => (i === 0 ? new MinKey() : i === chunks ? new MaxKey() : Long.fromBigInt(BigInt.asIntN(64, -(1n << 63n) + BigInt(i) * width)));
  const of = direct.db('config').collection('chunks');
  await of.deleteMany({ uuid });
  for (let n = 0; n < chunks; n += 10_000) {
    await of.insertMany(Array.from({ length: 10_000 }, (_, i) => ({ _id: new ObjectId(), uuid, min: { _id: bound(n + i) }, max: { _id: bound(n + i + 1) }, shard: `s${((n + i) * 7919) % 13 % 2}`, lastmod: new Timestamp({ t: 1, i: n + i + 1 }) })), { ordered: false });
  }
  assert.equal(await of.countDocuments({ uuid }), chunks);
  let bytes = 0;
  const map = await view(browser, `http://localhost:${port}/#/cluster/shop/map`, (p) => p.getByText(`${chunks.toLocaleString('en')} chunks`));
  map.page.on('response', async (r) => (bytes += (await r.body().catch(() => '')).length));
  row(`a map of ${chunks} chunks`, `${Math.round(map.seen)} ms`, '');
  await map.page.reload();
  await map.page.getByText(`${chunks.toLocaleString('en')} chunks`).waitFor({ timeout: 60_000 });
  row('bytes that the page was sent for it', bytes, '');
  row('elements in that page', await map.page.evaluate(() => document.querySelectorAll('*').length), '');
  const box = await map.page.locator('canvas').boundingBox();
  const moved = await frames(map.page, 3000, (i) => map.page.mouse.move(box.x + box.width / 2 + box.width * 0.34 * Math.cos(i / 10), box.y + box.height / 2 + box.height * 0.34 * Math.sin(i / 10)));
  row('while one points along it', `${Math.round(moved.rate)} frames a second, the longest ${Math.round(moved.longest)} ms`, '30');
  const themed = await frames(map.page, 3000, async (i) => {
    await map.page.evaluate((dark) => (document.documentElement.dataset.theme = dark ? 'dark' : 'light'), i % 2);
  });
  row('while it is drawn anew each time', `${Math.round(themed.rate)} frames a second, the longest ${Math.round(themed.longest)} ms`, '30');
}

console.log('| what | measured | bound |\n|---|---|---|');
const browser = await Browser.launch();
try {
  await oneServer(browser);
  await manyChunks(browser);
} finally {
  await browser.close();
  for (const end of ended) await end();
}
