// Applications that live on change streams, unmodified, on a replica set of one
// member: casbin's watcher tells one enforcer of what another one has changed,
// and Socket.IO's adapter carries messages between servers.
import assert from 'node:assert/strict';
import http from 'node:http';
import { once } from 'node:events';
import { after, test } from 'node:test';
import { MongoChangeStreamWatcher } from '@casbin/mongo-changestream-watcher';
import { createAdapter } from '@socket.io/mongo-adapter';
import { newEnforcer, newModelFromString } from 'casbin';
import { MongoAdapter } from 'casbin-mongodb-adapter';
import { MongoClient } from 'mongodb';
import { Server } from 'socket.io';
import { io } from 'socket.io-client';
import { startSet } from './set.js';
import { until } from './until.js';

const [member] = await startSet({ after }, 1);
const uri = `mongodb://${member.host}/?replicaSet=rs0`;
const limit = { timeout: 60_000 }; // of a test that waits for what never comes

const rbac = `
[request_definition]
r = sub, obj, act
[policy_definition]
p = sub, obj, act
[role_definition]
g = _, _
[policy_effect]
e = some(where (p.eft == allow))
[matchers]
m = g(r.sub, p.sub) && r.obj == p.obj && r.act == p.act
`;

test('casbin: an enforcer follows the policies that another one writes', limit, async (t) => {
  const place = { database: 'casbin', collection: 'rules' };
  const enforcers = [];
  for (let i = 0; i < 2; i++) {
    const adapter = await MongoAdapter.newAdapter({ uri, ...place });
    const e = await newEnforcer(newModelFromString(rbac), adapter);
    t.after(() => adapter.close());
    enforcers.push(e);
  }
  const [writer, reader] = enforcers;
  const watcher = await MongoChangeStreamWatcher.newWatcher(uri, { dbName: place.database, collectionName: place.collection });
  t.after(() => watcher.close());
  const told = [];
  const loads = [];
  watcher.setUpdateCallback((event) => {
    told.push(event.operationType);
    loads.push(reader.loadPolicy());
  });
  assert.equal(await reader.enforce('alice', 'data1', 'read'), false);
  await writer.addPolicy('admin', 'data1', 'read');
  await writer.addGroupingPolicy('alice', 'admin');
  await until('the policy', () => reader.enforce('alice', 'data1', 'read'));
  await writer.removeFilteredPolicy(0, 'admin'); // this adapter's removePolicy looks for the time at which it is called
  await until('the policy to go', async () => !(await reader.enforce('alice', 'data1', 'read')));
  assert.deepEqual(told, ['insert', 'insert', 'delete']);
  await Promise.all(loads);
});

test('Socket.IO: a message goes from one server to the clients of another, and its document expires', limit, async (t) => {
  const client = await MongoClient.connect(uri);
  t.after(() => client.close());
  const messages = client.db('chat').collection('messages');
  await messages.createIndex({ createdAt: 1 }, { expireAfterSeconds: 1, background: true });
  await member.admin({ setParameter: 1, ttlMonitorSleepSecs: 1 });
  const start = async () => {
    const web = http.createServer();
    const server = new Server(web, { adapter: createAdapter(messages, { addCreatedAtField: true }) });
    web.listen(0, '127.0.0.1');
    await once(web, 'listening');
    const url = `http://127.0.0.1:${web.address().port}`;
    const socket = io(url, { transports: ['websocket'] });
    await once(socket, 'connect');
    t.after(async () => {
      socket.close();
      await server.close();
    });
    return { server, socket };
  };
  const [one, two] = [await start(), await start()];
  await until('the servers to know each other', async () => {
    try {
      return (await one.server.timeout(1000).fetchSockets()).length === 2;
    } catch {
      return false;
    }
  });
  const heard = once(two.socket, 'news');
  one.server.emit('news', { n: 1, data: Buffer.from([1, 2, 3]) });
  const [news] = await heard;
  assert.deepEqual([news.n, [...news.data]], [1, [1, 2, 3]]);
  const gone = messages.watch([{ $match: { operationType: 'delete' } }]);
  t.after(() => gone.close());
  assert.equal((await gone.next()).expired.rule, 'createdAt_1');
});
