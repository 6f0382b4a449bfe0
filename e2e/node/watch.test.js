// Change streams of Mongoose and the Node driver, unmodified, on a replica set
// of one member.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { MongoClient } from 'mongodb';
import mongoose from 'mongoose';
import { startSet } from './set.js';

const [member] = await startSet({ after }, 1);
const uri = (db) => `mongodb://${member.host}/${db}?replicaSet=rs0`;
const limit = { timeout: 60_000 }; // of a test that waits for what never comes

// collectionOf gives a test an empty collection.
async function collectionOf(t, db) {
  const client = await MongoClient.connect(uri(db));
  t.after(() => client.close());
  return client.db().createCollection('c');
}

// watch opens a stream on c until the test ends. Its position is fixed when
// this returns.
async function watch(t, c, pipeline, options) {
  const stream = c.watch(pipeline, options);
  t.after(() => stream.close());
  assert.equal(await stream.tryNext(), null);
  return stream;
}

test('Mongoose: a model is watched', limit, async (t) => {
  const mine = await mongoose.createConnection(uri('model')).asPromise();
  t.after(() => mine.close());
  const Order = mine.model('Order', new mongoose.Schema({ item: String, n: Number }));
  await Order.createCollection();
  const stream = Order.watch([{ $match: { operationType: { $in: ['insert', 'update'] } } }], { fullDocument: 'updateLookup', hydrate: true });
  t.after(() => stream.close());
  const events = [];
  const two = new Promise((resolve, reject) => {
    stream.on('change', (event) => { if (events.push(event) === 2) resolve(); });
    stream.on('error', reject);
  });
  await new Promise((resolve) => stream.on('resumeTokenChanged', resolve)); // it is open
  const order = await Order.create({ item: 'pear', n: 1 });
  order.n = 7;
  await order.save();
  await two;
  assert.deepEqual(events.map((e) => [e.operationType, e.documentKey._id.equals(order._id), e.fullDocument instanceof Order, e.fullDocument.item]),
    [['insert', true, true, 'pear'], ['update', true, true, 'pear']]);
  assert.equal(events[1].fullDocument.n, 7);
});

test('Node driver: insert, update, replace and delete', limit, async (t) => {
  const c = await collectionOf(t, 'kinds');
  const stream = await watch(t, c, [], { fullDocument: 'updateLookup' });
  await c.insertOne({ _id: 1, a: 1, b: { c: [1, 2, 3] }, old: true });
  await c.updateOne({ _id: 1 }, { $set: { a: 2, 'b.c.1': 20 }, $unset: { old: 1 } });
  const seen = [await stream.next(), await stream.next()];
  await c.replaceOne({ _id: 1 }, { z: 1 });
  await c.deleteOne({ _id: 1 });
  seen.push(await stream.next(), await stream.next());
  const ns = { db: 'kinds', coll: 'c' };
  const documentKey = { _id: 1 };
  assert.deepEqual(seen.map(({ _id, clusterTime, wallTime, ...event }) => event), [
    { operationType: 'insert', fullDocument: { _id: 1, a: 1, b: { c: [1, 2, 3] }, old: true }, ns, documentKey },
    {
      operationType: 'update', fullDocument: { _id: 1, a: 2, b: { c: [1, 20, 3] } }, ns, documentKey,
      updateDescription: { updatedFields: { a: 2, 'b.c.1': 20 }, removedFields: ['old'], truncatedArrays: [] },
    },
    { operationType: 'replace', fullDocument: { _id: 1, z: 1 }, ns, documentKey },
    { operationType: 'delete', ns, documentKey },
  ]);
  assert.ok(seen.every((e, i) => e.wallTime instanceof Date && (i === 0 || e.clusterTime.greaterThan(seen[i - 1].clusterTime))));
});

test('Node driver: a document that is gone when an update is told has no fullDocument', limit, async (t) => {
  const c = await collectionOf(t, 'gone');
  const stream = await watch(t, c, [], { fullDocument: 'updateLookup' });
  await c.insertOne({ _id: 1 });
  await c.updateOne({ _id: 1 }, { $set: { a: 1 } });
  await c.deleteOne({ _id: 1 });
  const seen = [await stream.next(), await stream.next(), await stream.next()];
  assert.deepEqual(seen.map((e) => [e.operationType, e.fullDocument]), [['insert', { _id: 1 }], ['update', null], ['delete', undefined]]);
});

test('Node driver: what expires is told as a delete, with the rule', limit, async (t) => {
  const c = await collectionOf(t, 'expiry');
  await member.admin({ setParameter: 1, ttlMonitorSleepSecs: 1 });
  await c.createIndex({ at: 1 }, { expireAfterSeconds: 0 });
  const stream = await watch(t, c, [{ $match: { operationType: 'delete' } }]);
  const at = new Date();
  await c.insertMany([{ _id: 'due', at }, { _id: 'later', at: new Date(at.getTime() + 3600e3) }]);
  const event = await stream.next();
  assert.deepEqual([event.documentKey, event.expired.rule], [{ _id: 'due' }, 'at_1']);
  if (event.expired.at !== undefined) assert.deepEqual(event.expired.at, at); // absent of a range
  await c.deleteOne({ _id: 'later' });
  const deleted = await stream.next();
  assert.deepEqual([deleted.documentKey, deleted.expired], [{ _id: 'later' }, undefined]);
});

test('Node driver: a transaction is told when it is committed, at one time', limit, async (t) => {
  const c = await collectionOf(t, 'transaction');
  const stream = await watch(t, c);
  await c.client.withSession((session) => session.withTransaction(async () => {
    await c.insertOne({ _id: 1 }, { session });
    await c.insertOne({ _id: 2 }, { session });
    await c.insertOne({ _id: 'before' }); // of nobody's transaction
  }));
  const seen = [await stream.next(), await stream.next(), await stream.next()];
  assert.deepEqual(seen.map((e) => e.documentKey._id), ['before', 1, 2]);
  const [before, one, two] = seen;
  assert.ok(one.clusterTime.equals(two.clusterTime) && one.clusterTime.greaterThan(before.clusterTime));
  assert.deepEqual([one.lsid, one.txnNumber], [two.lsid, two.txnNumber]);
  assert.deepEqual([before.lsid, one.txnNumber], [undefined, 1]);
  assert.ok(one._id._data < two._id._data);
});

test('Node driver: a stream is resumed with a token that was stored', limit, async (t) => {
  const c = await collectionOf(t, 'resume');
  const first = await watch(t, c);
  await c.client.withSession((session) => session.withTransaction(() => c.insertMany([{ _id: 1 }, { _id: 2 }, { _id: 3 }], { session })));
  await first.next();
  const stored = JSON.stringify((await first.next())._id); // in the midst of a transaction
  await first.close();
  await c.insertOne({ _id: 4 });
  for (const option of ['resumeAfter', 'startAfter']) {
    const again = c.watch([], { [option]: JSON.parse(stored) });
    t.after(() => again.close());
    assert.deepEqual([(await again.next()).documentKey._id, (await again.next()).documentKey._id], [3, 4]);
  }
});

test('Node driver: a collection is dropped: drop, invalidate, and the end', limit, async (t) => {
  const c = await collectionOf(t, 'dropped');
  const stream = await watch(t, c);
  await c.drop();
  const [drop, invalidate] = [await stream.next(), await stream.next()];
  assert.deepEqual([drop.operationType, drop.ns, invalidate.operationType], ['drop', { db: 'dropped', coll: 'c' }, 'invalidate']);
  await assert.rejects(stream.next(), /ChangeStream is closed/);
  await c.insertOne({ _id: 'anew' });
  await assert.rejects(c.watch([], { resumeAfter: invalidate._id }).next(), { code: 260 });
  const anew = c.watch([], { startAfter: invalidate._id });
  t.after(() => anew.close());
  assert.deepEqual((await anew.next()).documentKey, { _id: 'anew' });
});
