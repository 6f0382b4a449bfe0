// The Node driver inserts readings by insertMany, and all of them are there.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { MongoClient } from 'mongodb';

const sensors = 5;
const total = 6000;
const start = Date.UTC(2025, 11, 31, 20);

// Each reading is ten seconds after the one before: seventeen hours, across the
// bounds of many buckets.
const reading = (i) => ({ t: new Date(start + i * 10_000), sensor: { id: i % sensors }, i, v: i / 4 });

let client;
let db;

before(async () => {
  client = await MongoClient.connect(process.env.MAYFLY_URI);
  db = client.db('e2e_timeseries');
  await db.dropDatabase();
});

after(async () => {
  await client.close();
});

async function readBack(c) {
  assert.equal(await c.countDocuments(), total);
  assert.equal(await c.estimatedDocumentCount(), total);
  let next = 0;
  for await (const { _id, ...d } of c.find().sort({ t: 1 }).batchSize(500)) {
    assert.ok(_id);
    assert.deepEqual(d, reading(next));
    next += 1;
  }
  assert.equal(next, total);
  const groups = await c.aggregate([{ $group: { _id: '$sensor.id', n: { $sum: 1 }, last: { $max: '$t' } } }, { $sort: { _id: 1 } }]).toArray();
  assert.deepEqual(groups, Array.from({ length: sensors }, (_, s) =>
    ({ _id: s, n: total / sensors, last: reading(total - sensors + s).t })));
}

for (const ordered of [true, false]) {
  const name = ordered ? 'ordered' : 'unordered';
  test(`insertMany of readings, ${name}`, async () => {
    const c = await db.createCollection(name, { timeseries: { timeField: 't', metaField: 'sensor', granularity: 'seconds' } });
    // Every third reading is late, and all batches are under way at once.
    const docs = Array.from({ length: total }, (_, i) => reading(i));
    const queue = [...docs.filter((d) => d.i % 3), ...docs.filter((d) => d.i % 3 === 0)];
    const batches = [];
    while (queue.length > 0) batches.push(queue.splice(0, 400));
    const done = await Promise.all(batches.map((b) => c.insertMany(b, { ordered })));
    assert.equal(done.reduce((n, r) => n + r.insertedCount, 0), total);
    await readBack(c);
    assert.ok(await db.collection(`system.buckets.${name}`).countDocuments() > sensors);
    await readBack(c); // all is packed now
  });

  test(`insertMany with a reading that has no time, ${name}`, async () => {
    const c = await db.createCollection(`refused_${name}`, { timeseries: { timeField: 't', metaField: 'sensor' } });
    const docs = Array.from({ length: 30 }, (_, i) => reading(i));
    delete docs[20].t;
    await assert.rejects(c.insertMany(docs, { ordered }), (e) => e.code === 2 && e.writeErrors.length === 1 && e.writeErrors[0].index === 20);
    assert.equal(await c.countDocuments(), ordered ? 20 : 29);
  });
}
