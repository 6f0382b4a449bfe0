// Unmodified drivers, shells and applications keep sessions in Mayfly and see
// them go.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import MongoStore from 'connect-mongo';
import express from 'express';
import session from 'express-session';
import { MongoClient } from 'mongodb';
import mongoose from 'mongoose';
import { until } from './until.js';

const uri = process.env.MAYFLY_URI;

test('mongosh: insert, find, createIndex, the counters move, documents go', () => {
  const script = `
    db = db.getSiblingDB('e2e_shell'); db.s.drop();
    db.s.createIndex({ at: 1 }, { expireAfterSeconds: 0 });
    const before = db.serverStatus().metrics.ttl;
    db.s.insertMany([{ _id: 1, at: new Date() }, { _id: 2, at: new Date(Date.now() + 3600e3) }]);
    for (let i = 0; i < 100 && db.s.countDocuments() > 1; i++) sleep(100);
    const after = db.serverStatus().metrics.ttl;
    print(EJSON.stringify({ left: db.s.find().toArray().map(d => d._id),
      deleted: Number(after.deletedDocuments) - Number(before.deletedDocuments),
      passed: Number(after.passes) > Number(before.passes) }));`;
  const out = execFileSync('node_modules/.bin/mongosh', ['--quiet', uri, '--eval', script], { encoding: 'utf8' });
  const r = JSON.parse(out.trim().split('\n').at(-1));
  assert.deepEqual(r.left, [2]);
  assert.ok(r.deleted >= 1 && r.passed);
});

test('mongosh: what the console shows, by the snippet of console/mongosh', () => {
  const script = `
    load('../../console/mongosh/index.js');
    db = db.getSiblingDB('e2e_snippet'); db.s.drop();
    db.s.insertMany([{ at: new Date(Date.now() - 7200e3) }, { at: new Date(Date.now() + 1800e3) }]);
    const none = db.s.expiry();
    const dry = db.s.expiryDryRun({ at: 1 }, { expireAfterSeconds: 3600 });
    const made = db.s.getIndexes().length;
    db.s.createIndex({ at: 1 }, { expireAfterSeconds: 36000 });
    const paused = db.s.pauseExpiry('at_1');
    let refused;
    try { db.s.pauseExpiry('none') } catch (e) { refused = e.message }
    print(EJSON.stringify({ none, due: dry.expiry[0].dueNow.documents, made, paused, refused, rules: db.s.expiry().map(r => [r.rule, r.paused]) }));`;
  const out = execFileSync('node_modules/.bin/mongosh', ['--quiet', uri, '--eval', script], { encoding: 'utf8' });
  for (const line of ['e2e_snippet.s: no rule; nothing leaves by itself', '  due now: 1 document', 'at_1: paused', 'at_1: 36000 s, paused']) assert.ok(out.split('\n').includes(line), `${line} in ${out}`);
  assert.deepEqual(JSON.parse(out.trim().split('\n').at(-1)), { none: [], due: 1, made: 1, paused: ['at_1'], refused: 'e2e_snippet.s has no rule none', rules: [['at_1', true]] });
});

test('express-session with connect-mongo: log in, wait, logged out', async () => {
  const client = await MongoClient.connect(uri);
  const sessions = client.db('e2e_web').collection('sessions');
  const store = MongoStore.create({ client, dbName: 'e2e_web', ttl: 2 });
  const app = express();
  app.use(session({ secret: 's', resave: false, saveUninitialized: false, store }));
  app.get('/login', (req, res) => { req.session.user = 'u'; res.send('in'); });
  app.get('/', (req, res) => res.send(req.session.user ?? 'nobody'));
  const server = app.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const base = `http://127.0.0.1:${server.address().port}`;
  try {
    const login = await fetch(`${base}/login`);
    const cookie = login.headers.get('set-cookie').split(';')[0];
    const who = async () => (await fetch(base, { headers: { cookie } })).text();
    assert.equal(await who(), 'u');
    // Every request touches the session, so nobody asks while its time runs out.
    await until('the removal', async () => (await sessions.countDocuments()) === 0);
    assert.equal(await who(), 'nobody');
  } finally {
    server.closeAllConnections();
    server.close();
    await store.close();
    await client.close();
  }
});

test('Mongoose: an expires schema, syncIndexes', async () => {
  const m = await mongoose.createConnection(`${uri}/e2e_mongoose`).asPromise();
  try {
    await m.dropDatabase();
    const Token = m.model('Token', new mongoose.Schema({ v: String, at: { type: Date, expires: 1 } }));
    await Token.syncIndexes();
    assert.equal((await Token.collection.indexes()).find((i) => i.name === 'at_1').expireAfterSeconds, 1);
    await Token.create({ v: 'a', at: new Date() });
    await until('the token to go', async () => (await Token.countDocuments()) === 0);
  } finally {
    await m.close();
  }
});

test('Node driver: bulk writes, findOneAndUpdate, aggregate, collMod', async () => {
  const client = await MongoClient.connect(uri);
  try {
    const db = client.db('e2e_driver');
    await db.dropDatabase();
    const c = db.collection('c');
    await c.insertMany(Array.from({ length: 1000 }, (_, i) => ({ _id: i, g: i % 3 })));
    await c.createIndex({ at: 1 });
    await db.command({ collMod: 'c', index: { keyPattern: { at: 1 }, expireAfterSeconds: 0 } });
    assert.equal((await c.findOneAndUpdate({ _id: 5 }, { $inc: { g: 10 } }, { returnDocument: 'after' })).g, 12);
    const groups = await c.aggregate([{ $group: { _id: '$g', n: { $sum: 1 } } }, { $sort: { _id: 1 } }]).toArray();
    assert.deepEqual(groups, [{ _id: 0, n: 334 }, { _id: 1, n: 333 }, { _id: 2, n: 332 }, { _id: 12, n: 1 }]);
    await c.updateMany({ g: 0 }, { $set: { at: new Date() } });
    await until('the due ones to go', async () => (await c.countDocuments()) === 666);
  } finally {
    await client.close();
  }
});
