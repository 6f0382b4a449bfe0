// A worker on agenda 6, as a process of its own: it hears of jobs by a change stream, polls once
// an hour, and says which it has run, a line each, until its input ends.
import { Agenda } from 'agenda';
import { MongoBackend, MongoChangeStreamNotificationChannel } from '@agendajs/mongo-backend';
import { MongoClient } from 'mongodb';

const client = await MongoClient.connect(process.argv[2]);
const db = client.db('agenda');
const agenda = new Agenda({
  backend: new MongoBackend({ mongo: db }), notificationChannel: new MongoChangeStreamNotificationChannel({ db }), processEvery: '1 hour',
});
agenda.define('mail', async (job) => { console.log(job.attrs.data.n); });
agenda.define('broken', async () => { throw new Error('no luck'); });
process.stdin.on('end', async () => {
  await agenda.stop();
  await client.close();
  process.exit();
}).resume();
await agenda.start();
