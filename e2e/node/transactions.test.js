// Transactions of Mongoose, the Node driver and mongosh, unmodified, on a
// replica set of one member.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after, test } from 'node:test';
import { MongoClient } from 'mongodb';
import mongoose from 'mongoose';
import { startSet } from './set.js';

const [member] = await startSet({ after }, 1);
const uri = (db) => `mongodb://${member.host}/${db}?replicaSet=rs0`;
const limit = { timeout: 60_000 }; // of a test that waits for what never comes

// accounts gives a test a Mongoose model of accounts and a client that is a
// stranger to it. Three accounts of 100 are there.
async function accounts(t, db) {
  const mine = await mongoose.createConnection(uri(db)).asPromise();
  const stranger = await MongoClient.connect(uri(db));
  t.after(() => Promise.all([mine.close(), stranger.close()]));
  const Account = mine.model('Account', new mongoose.Schema({ _id: String, balance: Number }));
  await Account.insertMany(['a', 'b', 'c'].map((_id) => ({ _id, balance: 100 })));
  const balances = async () => Object.fromEntries((await Account.find().sort('_id')).map((d) => [d.id, d.balance]));
  return { mine, Account, balances, others: stranger.db().collection('accounts') };
}

test('Mongoose: money moves, and a transaction that meets a write is run again', limit, async (t) => {
  const { mine, Account, balances, others } = await accounts(t, 'conflict');
  const seen = [];
  await mine.transaction(async (session) => {
    const a = await Account.findById('a').session(session);
    const b = await Account.findById('b').session(session);
    seen.push(a.balance);
    if (seen.length === 1) {
      await others.updateOne({ _id: 'a' }, { $inc: { balance: -10 } });
      await others.updateOne({ _id: 'c' }, { $inc: { balance: 10 } });
      assert.equal((await Account.findById('a').session(session)).balance, 100); // the same state all along
    }
    b.balance += 30;
    await b.save({ session });
    assert.equal((await others.findOne({ _id: 'b' })).balance, 100); // nobody sees it yet
    a.balance -= 30;
    await a.save({ session });
  });
  assert.deepEqual(seen, [100, 90]);
  assert.deepEqual(await balances(), { a: 60, b: 130, c: 110 });
});

test('Mongoose: many transactions at once on the same documents', limit, async (t) => {
  const { mine, Account, balances } = await accounts(t, 'crowd');
  const move = (from, to) => mine.transaction(async (session) => {
    await Account.updateOne({ _id: from }, { $inc: { balance: -1 } }, { session });
    await Account.updateOne({ _id: to }, { $inc: { balance: 1 } }, { session });
  });
  await Promise.all([...Array(8)].flatMap(() => [move('a', 'b'), move('b', 'c'), move('c', 'a'), move('a', 'c')]));
  assert.deepEqual(await balances(), { a: 92, b: 100, c: 108 });
});

test('Mongoose: an abort leaves nothing', limit, async (t) => {
  const { mine, Account, balances, others } = await accounts(t, 'abort');
  const failed = new Error('the buyer is gone');
  await assert.rejects(mine.transaction(async (session) => {
    await Account.updateOne({ _id: 'a' }, { $inc: { balance: -30 } }, { session });
    await Account.deleteOne({ _id: 'b' }, { session });
    await Account.create([{ _id: 'd', balance: 30 }], { session });
    assert.equal(await Account.countDocuments().session(session), 3);
    throw failed;
  }), failed);
  assert.deepEqual(await balances(), { a: 100, b: 100, c: 100 });
  // Its locks are gone, too.
  assert.equal((await others.updateOne({ _id: 'a' }, { $inc: { balance: 1 } })).modifiedCount, 1);
});

test('Mongoose: a collection is made inside, and is gone after an abort', limit, async (t) => {
  const { mine, others } = await accounts(t, 'made');
  const names = async () => (await mine.listCollections()).map((c) => c.name).sort();
  const make = async (name, session) => {
    const c = await mine.createCollection(name, { session });
    await c.createIndex({ at: 1 }, { expireAfterSeconds: 3600, session });
    await c.insertOne({ _id: 1, at: new Date() }, { session });
    await mine.collection(`${name}_implicit`).insertOne({ _id: 1 }, { session });
    assert.deepEqual(await names(), ['accounts', ...kept]);
  };
  let kept = [];
  await mine.transaction((session) => make('kept', session));
  kept = ['kept', 'kept_implicit'];
  assert.deepEqual(await names(), ['accounts', ...kept]);
  assert.deepEqual((await mine.collection('kept').indexes()).map((i) => [i.name, i.expireAfterSeconds]), [['_id_', undefined], ['at_1', 3600]]);
  assert.equal(await mine.collection('kept').countDocuments({ _id: 1 }), 1);
  assert.equal(await mine.collection('kept_implicit').countDocuments({ _id: 1 }), 1);

  const session = await mine.startSession();
  session.startTransaction();
  await make('lost', session);
  await session.abortTransaction();
  await session.endSession();
  assert.deepEqual(await names(), ['accounts', ...kept]);
  assert.equal(await others.countDocuments(), 3);
});

test('Node driver: of two transactions that write one document the second is told at once', limit, async (t) => {
  const { others } = await accounts(t, 'two');
  const [one, two] = [others.client.startSession(), others.client.startSession()];
  t.after(() => Promise.all([one.endSession(), two.endSession()]));
  one.startTransaction();
  two.startTransaction();
  await others.updateOne({ _id: 'a' }, { $inc: { balance: 1 } }, { session: one });
  await assert.rejects(others.updateOne({ _id: 'a' }, { $inc: { balance: 2 } }, { session: two }),
    (err) => err.code === 112 && err.hasErrorLabel('TransientTransactionError'));
  await one.commitTransaction();
  await two.abortTransaction();
  assert.equal((await others.findOne({ _id: 'a' })).balance, 101);
});

// typed gives mongosh lines as if somebody typed them, and returns what they print.
function typed(db, lines) {
  const out = execFileSync('node_modules/.bin/mongosh', ['--quiet', uri(db)], { input: lines.join('\n') + '\n', encoding: 'utf8' });
  return [...out.matchAll(/=> (.*)/g)].map((m) => m[1]);
}

test('mongosh: a session is committed and aborted, and a stream tells of it', limit, () => {
  assert.deepEqual(typed('shell', [
    'db.createCollection("c"); var stream = db.c.watch()',
    'print("=> nothing yet", stream.tryNext())',
    'var session = db.getMongo().startSession(); var mine = session.getDatabase("shell").c',
    'session.startTransaction()',
    'mine.insertOne({ _id: "aborted" })',
    'print("=> inside", mine.countDocuments(), "outside", db.c.countDocuments())',
    'session.abortTransaction()',
    'session.startTransaction()',
    'mine.insertOne({ _id: "committed" })',
    'session.commitTransaction()',
    'print("=> left", db.c.distinct("_id").join())',
    'var event = stream.tryNext()',
    'print("=> event", event.operationType, event.fullDocument._id, event.txnNumber == 2)',
    'stream.close(); session.endSession()',
  ]), ['nothing yet null', 'inside 1 outside 0', 'left committed', 'event insert committed true']);
});
