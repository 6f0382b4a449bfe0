// agenda 6, unmodified, with notifications: workers, which are processes of their own, hear of
// jobs by change streams and do not poll. On a replica set of one member.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import readline from 'node:readline';
import { after, test } from 'node:test';
import { Agenda } from 'agenda';
import { MongoBackend } from '@agendajs/mongo-backend';
import { MongoClient } from 'mongodb';
import { startSet } from './set.js';
import { until } from './until.js';

const [member] = await startSet({ after }, 1);
const uri = `mongodb://${member.host}/?replicaSet=rs0`;

test('agenda: workers hear of jobs that another process orders', { timeout: 120_000 }, async (t) => {
  const ran = [];
  const workers = [0, 1].map(() => {
    const worker = spawn(process.execPath, ['agenda-worker.js', uri], { stdio: ['pipe', 'pipe', 'inherit'] });
    t.after(() => worker.kill('SIGKILL'));
    readline.createInterface({ input: worker.stdout }).on('line', (n) => ran.push(Number(n)));
    return worker;
  });
  const streams = async () => (await member.admin({ serverStatus: 1 })).metrics.changeStreams.open;
  await until('the streams', async () => await streams() === 2);
  const client = await MongoClient.connect(uri);
  t.after(() => client.close());
  const orders = new Agenda({ backend: new MongoBackend({ mongo: client.db('agenda') }) }); // it is not started
  await orders.ready;
  for (let n = 0; n < 20; n++) await orders.now('mail', { n });
  await until('the jobs', () => ran.length >= 20);
  await orders.schedule(new Date(Date.now() + 500), 'mail', { n: 20 });
  await until('the job of later', () => ran.length >= 21);
  await orders.now('broken');
  await until('the failure', async () => (await client.db('agenda').collection('agendaJobs').findOne({ name: 'broken' })).failReason === 'no luck');
  assert.deepEqual(ran.sort((a, b) => a - b), Array.from({ length: 21 }, (_, n) => n));
  await Promise.all(workers.map((w) => { w.stdin.end(); return once(w, 'exit'); }));
  await until('the end of the streams', async () => await streams() === 0);
});
