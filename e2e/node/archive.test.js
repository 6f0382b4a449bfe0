// DuckDB reads what a TTL index has archived, as it is: documents of every type, and what it reads agrees
// with what a find returned before the removal.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import { DuckDBInstance } from '@duckdb/node-api';
import {
  BSON, Binary, BSONRegExp, BSONSymbol, Code, DBRef, Decimal128, Double, Int32, Long, MaxKey, MinKey, MongoClient, ObjectId, Timestamp, UUID,
} from 'mongodb';
import { freePort, Process } from './process.js';

const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'mayfly-archive-'));
const port = await freePort();
const place = path.join(dir, 'archive');
const server = new Process(port, ['serve', '--dbpath', fs.mkdtempSync(path.join(dir, 'data')), '--setParameter', `archivePlaces=file://${place}`,
  '--setParameter', 'enableTestCommands=1'], path.join(dir, 'log'));
const client = await MongoClient.connect(`mongodb://localhost:${port}/`, { serverSelectionTimeoutMS: 60_000 });
after(async () => {
  await client.close();
  await server.end('SIGTERM');
  fs.rmSync(dir, { recursive: true, force: true });
});

const { EJSON } = BSON;
const day = Date.UTC(2020, 0, 1);
const hex = '0123456789abcdef01234567';

// values are of every type, by name.
const values = {
  double: new Double(1.5), whole: new Double(2), string: 'häuser', document: { a: { b: 1 } }, array: [1, 'two', [3]], binary: new Binary(Buffer.from([0, 1, 255])),
  uuid: new UUID('00000000-0000-4000-8000-000000000001'), userBinary: new Binary(Buffer.from('xyz'), 128), objectId: new ObjectId(hex), boolTrue: true, boolFalse: false,
  date: new Date(day), lateDate: new Date(8.64e15), null: null, regex: new BSONRegExp('^a', 'i'), dbRef: new DBRef('c', new ObjectId(hex)), code: new Code('f()'),
  codeScope: new Code('f()', { x: 1 }), symbol: new BSONSymbol('s'), int32: new Int32(-7), timestamp: new Timestamp({ t: 5, i: 6 }), int64: Long.fromString('9007199254740993'),
  decimal: Decimal128.fromString('1.50'), minKey: new MinKey(), maxKey: new MaxKey(),
};

test('DuckDB reads every type, and what a find returned', async () => {
  const db = client.db('app');
  const log = db.collection('log');
  await db.command({ createIndexes: 'log', indexes: [{ key: { at: 1 }, name: 'at_1', expireAfterSeconds: 3600 * 24 * 365 * 60,
    storageEngine: { mayfly: { expiry: { archive: { to: `file://${place}`, fields: ['user', 'v'] } } } } }] });
  const docs = Object.entries(values).map(([name, v], i) => ({ _id: name, at: new Date(day + i * 3_600_000), user: `u${i % 3}`, v }));
  docs.push({ _id: 'large', at: new Date(day), v: new Binary(Buffer.alloc(16 * 1024 * 1024 - 1000, 7)) }, { _id: 'none', at: new Date(day) });
  for (const d of docs) await log.insertOne(d);
  const found = new Map();
  for await (const d of log.find({}, { raw: true })) {
    found.set(BSON.deserialize(d)._id, Buffer.from(d));
  }
  assert.equal(found.size, docs.length);
  await db.command({ collMod: 'log', index: { name: 'at_1', expireAfterSeconds: 0 } });
  await client.db('admin').command({ advanceClock: 1, millis: 120_000 });
  for (let i = 0; await log.countDocuments() > 0; i += 1) {
    assert.ok(i < 600, 'it is not archived');
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  const duck = await (await DuckDBInstance.create(':memory:')).connect();
  const files = `read_parquet('${place}/app.log/*/*.parquet', hive_partitioning = true)`;
  const ask = async (sql) => (await duck.runAndReadAll(sql)).getRowObjectsJson();
  const rows = (await duck.runAndReadAll(`SELECT _id, rule, "user", v, epoch_ms("date") AS at, bson, CAST(dt AS VARCHAR) AS dt FROM ${files}`)).getRowObjects();
  assert.equal(rows.length, docs.length);
  for (const r of rows) {
    const id = JSON.parse(r._id);
    assert.ok(found.get(id).equals(Buffer.from(r.bson.bytes)), `${id} has other bytes`);
    assert.equal(r.rule, 'at_1');
    const d = docs.find((one) => one._id === id);
    assert.equal(Number(r.at), d.at.getTime());
    assert.equal(r.dt, d.at.toISOString().slice(0, 10));
    assert.equal(r.user, d.user ?? null);
    found.delete(id);
  }
  assert.equal(found.size, 0);
  // The columns of fields, and doc as VARIANT.
  const text = Object.fromEntries(rows.map((r) => [JSON.parse(r._id), r.v]));
  assert.equal(text.string, 'häuser');
  assert.equal(text.objectId, hex);
  assert.equal(text.int32, '-7');
  assert.equal(text.none, null);
  assert.deepEqual(JSON.parse(text.array), [1, 'two', [3]]);
  assert.deepEqual(await ask(`SELECT count(*) AS n FROM ${files} WHERE "user" = 'u1' AND dt = '2020-01-01'`), [{ n: String(docs.filter((d) => d.user === 'u1' && d.at.getTime() < day + 86_400_000).length) }]);
  const typed = Object.fromEntries((await ask(`SELECT _id, variant_typeof(doc.v) AS t, CAST(doc.v AS VARCHAR) AS s FROM ${files} WHERE _id <> '"large"' AND _id <> '"none"'`)).map((r) => [JSON.parse(r._id), r]));
  for (const [name, type] of Object.entries({ double: 'DOUBLE', string: 'VARCHAR', boolTrue: 'BOOL_TRUE', int32: 'INT32', int64: 'INT64' })) {
    assert.ok(typed[name].t.toUpperCase().startsWith(type), `${name} is ${typed[name].t}`);
  }
  assert.equal(typed.int64.s, '9007199254740993');
  // And Mayfly reads it back: a find by _id reads three row groups at most.
  for (const [name, v] of Object.entries(values)) {
    const [d] = await log.aggregate([{ $archive: { query: { _id: name } } }], { promoteValues: false }).toArray();
    assert.equal(EJSON.stringify(d.v, { relaxed: false }), EJSON.stringify(v, { relaxed: false }), name);
  }
  const plan = await log.aggregate([{ $archive: { query: { _id: 'decimal' } } }]).explain('executionStats');
  const stage = plan.stages.find((s) => s.$archive);
  assert.ok(stage.rowGroupsRead <= 3 && stage.rowGroupsRead >= 1 && stage.bytesRead > 0, EJSON.stringify(stage));
});
