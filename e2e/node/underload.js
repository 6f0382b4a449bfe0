// A Mongoose application on a cluster that somebody else disturbs (e2e/cluster): it inserts,
// counts, deletes and reads through each of the routers, until its input ends. Then the cluster
// is whole again, and it holds all that there is to what it was told.
//
//	node underload.js URI…
import assert from 'node:assert/strict';
import mongoose from 'mongoose';

const counted = 50;
const schema = new mongoose.Schema({ _id: mongoose.Schema.Types.Mixed, n: Number, tags: [String] }, { versionKey: false });

// brokeOff says whether an error leaves open what has become of a write, or says that it was not
// made: parts of the cluster are dead.
const brokeOff = (err) => err instanceof mongoose.mongo.MongoError && err.code !== 11000;

const apps = [];
for (const uri of process.argv.slice(2)) {
  const db = await mongoose.createConnection(uri, { dbName: 'app' }).asPromise();
  apps.push(db.model('Thing', schema, 'm'));
}
await apps[0].insertMany(Array.from({ length: counted }, (_, i) => ({ _id: i, n: 0 })));
console.log('begun');

let over = false;
process.stdin.resume();
const ended = new Promise((resolve) => { process.stdin.on('end', () => { over = true; resolve(); }); });

const acknowledged = Array(counted).fill(0);
const unknown = Array(counted).fill(0);
const things = new Map(); // those that were inserted, by _id: what is known of them
let reads = 0;

async function count(Thing) {
  for (let k = 0; !over; k++) {
    const i = Math.floor(Math.random() * counted);
    try {
      if (k % 2) {
        const found = await Thing.findOneAndUpdate({ _id: i }, { $inc: { n: 1 } }, { new: true });
        assert.ok(found, `document ${i} is not there`);
      } else {
        const result = await Thing.updateOne({ _id: i }, { $inc: { n: 1 } });
        assert.equal(result.matchedCount, 1, `document ${i} is not there`);
      }
      acknowledged[i]++;
    } catch (err) {
      if (!brokeOff(err)) throw err;
      unknown[i]++;
    }
  }
}

async function live(Thing, name) {
  for (let k = 0; !over; k++) {
    const thing = { inserted: false, saved: false, deleteTried: false, deleted: false };
    const _id = `${name}.${k}`;
    things.set(_id, thing);
    try {
      const doc = await Thing.create({ _id, n: k, tags: ['a'] });
      thing.inserted = true;
      doc.tags.push('b');
      await doc.save();
      thing.saved = true;
      if (k % 3 !== 0) continue;
      thing.deleteTried = true;
      assert.equal((await Thing.deleteOne({ _id })).deletedCount, 1, `${_id} is not there to be deleted`);
      thing.deleted = true;
    } catch (err) {
      if (!brokeOff(err)) throw err;
    }
  }
}

async function read(Thing) {
  while (!over) {
    try {
      const seen = [];
      for await (const doc of Thing.find({ _id: { $type: 'number' } }).lean().cursor({ batchSize: 10 })) seen.push(doc._id);
      assert.equal(seen.length, counted, 'a reader sees another number of documents');
      assert.equal(new Set(seen).size, counted, 'a reader sees a document twice');
      const [sum] = await Thing.aggregate([{ $match: { _id: { $type: 'number' } } }, { $group: { _id: null, documents: { $sum: 1 } } }]);
      assert.equal(sum?.documents, counted, 'a group has another number of documents');
      reads++;
    } catch (err) {
      if (!brokeOff(err)) throw err;
    }
  }
}

function check(docs) {
  const found = new Map(docs.map((d) => [d._id, d]));
  assert.equal(found.size, docs.length, 'a document is there twice');
  for (let i = 0; i < counted; i++) {
    const { n } = found.get(i);
    assert.ok(n >= acknowledged[i] && n <= acknowledged[i] + unknown[i], `document ${i} counts ${n}; ${acknowledged[i]} were acknowledged, ${unknown[i]} unknown`);
  }
  for (const [id, t] of things) {
    const d = found.get(id);
    assert.ok(!(t.deleted && d), `${id} was deleted and is there`);
    assert.ok(!(t.inserted && !t.deleteTried && !d), `${id} was inserted and is lost`);
    if (t.saved && d) assert.deepEqual(d.tags, ['a', 'b'], `${id} has lost what was saved`);
  }
  for (const id of found.keys()) assert.ok(typeof id === 'number' || things.has(id), `${id} was never inserted`);
}

await Promise.all(apps.flatMap((Thing, i) => [count(Thing), live(Thing, i), read(Thing)]).concat(ended));
for (const Thing of apps) check(await Thing.find().lean());
const all = [...things.values()];
const sum = (list) => list.reduce((a, b) => a + b, 0);
console.log(`Mongoose: ${sum(acknowledged)} increments acknowledged and ${sum(unknown)} unknown, ${all.filter((t) => t.saved && !t.deleteTried).length} documents stay, ${all.filter((t) => t.deleted).length} were deleted, ${reads} reads`);
assert.ok(Math.min(sum(acknowledged), all.filter((t) => t.saved).length, all.filter((t) => t.deleted).length, reads) >= 5, 'that is too little');
await Promise.all(apps.map((Thing) => Thing.db.close()));
