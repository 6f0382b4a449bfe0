// A Node client of the nemesis: increments the tallies until its standard input ends, and
// prints each token that was acknowledged.
import { createRequire } from 'node:module';
import path from 'node:path';

const require = createRequire(path.resolve('../node/package.json'));
const { MongoClient } = require('mongodb');

const [uri, prefix] = process.argv.slice(2);
const client = new MongoClient(uri, { heartbeatFrequencyMS: 500, connectTimeoutMS: 1000, serverSelectionTimeoutMS: 8000, socketTimeoutMS: 8000 });
const tallies = client.db('app').collection('tallies');
let ended = false;
process.stdin.on('end', () => { ended = true; }).resume();
for (let n = 1; !ended; n++) {
  const token = prefix + n;
  try {
    await tallies.updateOne({ _id: 'node-' + Math.floor(n / 100) }, { $inc: { n: 1 }, $push: { by: token } }, { upsert: true });
    console.log(token);
  } catch (e) {
    console.error(e.code ?? e.name, e.message);
  }
  await new Promise(resolve => setTimeout(resolve, 5));
}
await client.close();
