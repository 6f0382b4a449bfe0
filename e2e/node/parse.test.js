// Parse Server, unmodified, as a process of its own, on a replica set of one member: its live
// queries, batches that are transactions, and requests that are known until they expire. It
// uses a part of the package router that 2.3 of that does not have, so 2.2 is installed.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import { MongoClient } from 'mongodb';
import Parse from 'parse/node';
import { freePort } from './process.js';
import { startSet } from './set.js';
import { until } from './until.js';

const limit = { timeout: 60_000 }; // of a test that waits for what never comes
const [member] = await startSet({ after }, 1);
await member.admin({ setParameter: 1, ttlMonitorSleepSecs: 1 });
const uri = `mongodb://${member.host}/parse?replicaSet=rs0`;
const port = await freePort();
const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'mayfly-parse-'));
fs.writeFileSync(path.join(dir, 'config.json'), JSON.stringify({
  appId: 'app', masterKey: 'master', databaseURI: uri, port, serverURL: `http://127.0.0.1:${port}/parse`,
  startLiveQueryServer: true, liveQuery: { classNames: ['Order'] }, allowClientClassCreation: true,
  idempotencyOptions: { paths: ['classes/Once'], ttl: 2 },
}));
const program = path.resolve('node_modules/parse-server/bin/parse-server');
const server = spawn(process.execPath, [program, path.join(dir, 'config.json')], { cwd: dir, stdio: ['ignore', 'pipe', 'pipe'] });
let said = '';
for (const out of [server.stdout, server.stderr]) out.on('data', (text) => { said += text; });
after(async () => {
  if (server.exitCode === null) {
    const ended = once(server, 'exit');
    server.kill('SIGKILL');
    await ended;
  }
  fs.rmSync(dir, { recursive: true });
});
const health = () => fetch(`http://127.0.0.1:${port}/parse/health`).then((r) => r.ok, () => false);
await until('Parse Server', async () => {
  assert.equal(server.exitCode, null, said);
  return health();
});
Parse.initialize('app', undefined, 'master');
Parse.serverURL = `http://127.0.0.1:${port}/parse`;
Parse.liveQueryServerURL = `ws://127.0.0.1:${port}/`;
const Order = Parse.Object.extend('Order');
const master = { useMasterKey: true };

test('Parse: a live query tells of what comes, changes, leaves and goes', limit, async (t) => {
  const order = await new Order().save({ item: 'pear', n: 1 });
  const subscription = await new Parse.Query(Order).greaterThan('n', 1).subscribe();
  t.after(async () => { await subscription.unsubscribe(); await (await Parse.CoreManager.getLiveQueryController().getDefaultLiveQueryClient()).close(); });
  const told = [];
  for (const kind of ['enter', 'create', 'update', 'leave', 'delete']) subscription.on(kind, (o) => told.push([kind, o.id, o.get('n')]));
  const other = await new Order().save({ item: 'plum', n: 2 });
  await order.save({ n: 5 });
  await other.save({ n: 3 });
  await order.save({ n: 0 });
  await other.destroy();
  await until('five events', () => told.length === 5);
  assert.deepEqual(told, [['create', other.id, 2], ['enter', order.id, 5], ['update', other.id, 3], ['leave', order.id, 0], ['delete', other.id, 3]]);
});

test('Parse: a batch is a transaction, whole or not there', limit, async () => {
  const counts = async () => (await member.admin({ serverStatus: 1 })).transactions;
  const before = await counts();
  const all = [1, 2, 3].map((n) => new Order({ item: 'batch', n }));
  await Parse.Object.saveAll(all, { ...master, transaction: true });
  const query = () => new Parse.Query(Order).equalTo('item', 'batch').count();
  assert.equal(await query(), 3);
  all[0].set('n', 10);
  const bad = new Order({ item: 'batch', n: 'not a number' });
  await assert.rejects(Parse.Object.saveAll([all[0], new Order({ item: 'batch', n: 4 }), bad], { ...master, transaction: true }),
    (errors) => errors.length === 3 && errors.every((err) => err.code === Parse.Error.INCORRECT_TYPE));
  assert.equal(await query(), 3);
  assert.equal((await new Parse.Query(Order).get(all[0].id)).get('n'), 1);
  const now = await counts();
  assert.ok(now.totalCommitted > before.totalCommitted && now.totalAborted > before.totalAborted, JSON.stringify(now));
});

test('Parse: users, whose names are unique, and their sessions', limit, async () => {
  const user = await Parse.User.signUp('alice', 'secret', { email: 'a@example.com' });
  await assert.rejects(Parse.User.signUp('alice', 'other'), { code: Parse.Error.USERNAME_TAKEN });
  const session = await Parse.User.logIn('alice', 'secret');
  assert.equal(session.id, user.id);
  await assert.rejects(Parse.User.logIn('alice', 'wrong'), { code: Parse.Error.OBJECT_NOT_FOUND });
});

test('Parse: a request is known until it expires', limit, async (t) => {
  const client = await MongoClient.connect(uri);
  t.after(() => client.close());
  const post = () => fetch(`${Parse.serverURL}/classes/Once`, { method: 'POST', body: '{"n":1}',
    headers: { 'X-Parse-Application-Id': 'app', 'X-Parse-Master-Key': 'master', 'X-Parse-Request-Id': 'request-1', 'Content-Type': 'application/json' } }).then((r) => r.json());
  assert.ok((await post()).objectId);
  assert.equal((await post()).code, Parse.Error.DUPLICATE_REQUEST);
  await until('the request to expire', async () => await client.db().collection('_Idempotency').countDocuments() === 0);
  assert.ok((await post()).objectId);
  assert.equal(await new Parse.Query('Once').count(master), 2);
});
