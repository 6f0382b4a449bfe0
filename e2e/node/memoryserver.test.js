// mongodb-memory-server, unmodified, with mayfly as the mongod that it starts; Mongoose on it.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import mongoose from 'mongoose';

const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'mayfly-memory-server-'));
after(() => fs.rmSync(dir, { recursive: true, force: true }));
const mongod = path.join(dir, 'mongod');
fs.symlinkSync(path.resolve(process.env.MAYFLY_BIN ?? '../../bin/mayfly'), mongod);
process.env.MONGOMS_SYSTEM_BINARY = mongod;
process.env.MONGOMS_VERSION = '8.0.15'; // else it warns that it was asked for another one
const { MongoMemoryReplSet, MongoMemoryServer } = await import('mongodb-memory-server');

const hour = 3600 * 1000;

// connect makes a model of sessions that expire after a day.
async function connect(t, uri, options) {
  const connection = await mongoose.createConnection(uri, { dbName: 'shop', ...options }).asPromise();
  t.after(() => connection.close());
  const Session = connection.model('Session', new mongoose.Schema({ user: { type: String, unique: true }, at: { type: Date, expires: '1d', default: Date.now } }));
  await Session.init();
  return Session;
}

test('MongoMemoryServer: sessions expire when the clock is set forward', async t => {
  const server = await MongoMemoryServer.create({ instance: { args: ['--setParameter', 'enableTestCommands=1'] } });
  t.after(() => server.stop());
  const Session = await connect(t, server.getUri());
  await Session.create([{ user: 'ann' }, { user: 'bob' }]);
  await assert.rejects(Session.create({ user: 'ann' }), { code: 11000 });
  const admin = Session.db.getClient().db('admin');
  await admin.command({ advanceClock: 1, millis: 23 * hour });
  assert.equal(await Session.countDocuments(), 2);
  await admin.command({ advanceClock: 1, millis: 2 * hour });
  assert.equal(await Session.countDocuments(), 0);
});

test('MongoMemoryServer: with access control', async t => {
  const server = await MongoMemoryServer.create({ auth: { enable: true, customRootName: 'root', customRootPwd: 'secret' } });
  t.after(() => server.stop());
  await assert.rejects(connect(t, server.getUri()), { code: 13 });
  const Session = await connect(t, server.getUri(), { auth: { username: 'root', password: 'secret' }, authSource: 'admin' });
  await Session.create({ user: 'ann' });
  assert.equal(await Session.countDocuments(), 1);
});

test('MongoMemoryReplSet: a transaction and a change stream on three members', async t => {
  const set = await MongoMemoryReplSet.create({ replSet: { count: 3 } });
  t.after(() => set.stop());
  const Session = await connect(t, set.getUri());
  const stream = Session.watch();
  const seen = new Promise((resolve, reject) => stream.on('change', resolve).on('error', reject));
  await new Promise(resolve => stream.driverChangeStream ? resolve() : stream.once('ready', resolve));
  await assert.rejects(Session.db.transaction(async session => {
    await Session.create([{ user: 'ann' }], { session });
    throw new Error('no');
  }), { message: 'no' });
  assert.equal(await Session.countDocuments(), 0);
  await Session.db.transaction(session => Session.create([{ user: 'bob' }, { user: 'cleo' }], { session, ordered: true }));
  assert.equal((await seen).fullDocument.user, 'bob');
  await stream.close();
});
