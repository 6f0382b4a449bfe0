// agenda 5, unmodified, keeps its jobs in Mayfly: at once, later, every so often,
// unique ones, and ones that fail.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Agenda } from 'agenda5';
import { MongoClient } from 'mongodb';
import { until } from './until.js';

const uri = process.env.MAYFLY_URI;

test('agenda: jobs run now, later and every second, one at a time, and fail', async () => {
  const client = await MongoClient.connect(uri);
  const jobs = client.db('e2e_agenda').collection('jobs');
  await jobs.drop().catch(() => {});
  const agenda = new Agenda({ db: { address: `${uri}/e2e_agenda`, collection: 'jobs' }, processEvery: 200 });
  const ran = { mail: [], tick: 0, broken: 0 };
  agenda.define('mail', async (job) => { ran.mail.push(job.attrs.data.to); });
  agenda.define('tick', async () => { ran.tick++; });
  agenda.define('broken', async () => { ran.broken++; throw new Error('no luck'); });
  try {
    await agenda.start();
    await agenda.now('mail', { to: 'a' });
    await agenda.schedule('in 1 second', 'mail', { to: 'b' });
    await agenda.every('1 second', 'tick');
    await agenda.now('broken');
    await agenda.create('mail', { to: 'c' }).unique({ 'data.to': 'c' }).schedule(new Date(Date.now() + 3600e3)).save();
    await agenda.create('mail', { to: 'c' }).unique({ 'data.to': 'c' }).schedule(new Date(Date.now() + 3600e3)).save();
    await until('the jobs', () => ran.mail.length === 2 && ran.tick >= 2 && ran.broken === 1);
    assert.deepEqual(ran.mail, ['a', 'b']);
    assert.equal(await jobs.countDocuments({ 'data.to': 'c' }), 1);
    await until('the failure', async () => (await jobs.findOne({ name: 'broken' })).failReason === 'no luck');
    assert.equal(await agenda.cancel({ 'data.to': 'c' }), 1);
    assert.equal((await agenda.jobs({ name: 'mail' })).length, 2);
  } finally {
    await agenda.stop();
    await agenda.close({ force: true });
    await client.close();
  }
});
