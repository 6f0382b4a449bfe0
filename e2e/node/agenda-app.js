// An application on agenda 5, as a process of its own: it orders a job every few
// milliseconds and runs them, until its input ends; then it says what has become of them.
// agenda has version 4 of the driver, which may try nothing again where a connection
// breaks after another one has, and leaves that to nobody: such an error is counted. A job
// whose end agenda could not save counts among those that run for ever after, and by
// default five of a kind may run at once: so more may here than connections break. After
// such an error it also runs jobs by polling alone, so it must poll; it takes the text
// '100 milliseconds' for 100 seconds.
import { Agenda } from 'agenda5';

const errors = [];
const ran = {};
const ordered = [];
let over = false;
process.on('unhandledRejection', (err) => errors.push(err.name));
process.stdin.on('end', () => { over = true; }).resume();

const agenda = new Agenda({
  db: { address: process.argv[2], collection: 'jobs' }, processEvery: 100, defaultLockLifetime: 2000,
  defaultConcurrency: 1000, maxConcurrency: 1000,
});
agenda.on('error', (err) => errors.push(err.name));
agenda.define('mail', async (job) => { ran[job.attrs.data.n] = (ran[job.attrs.data.n] ?? 0) + 1; });
await agenda.start();
for (let n = 0; !over; n++) {
  try {
    await agenda.now('mail', { n });
    ordered.push(n);
    if (n % 10 === 0) console.log(n);
  } catch (err) {
    errors.push(err.name);
  }
  await new Promise((r) => setTimeout(r, 20));
}
for (let i = 0; i < 300 && ordered.some((n) => !ran[n]); i++) await new Promise((r) => setTimeout(r, 100));
// agenda saves that a job begins, and then runs it. Where that is stored and the answer is
// lost, it never runs the job.
const missing = ordered.filter((n) => !ran[n]);
const begun = [];
for (const n of missing) {
  const [job] = await agenda.jobs({ 'data.n': n });
  if (job?.attrs.lastRunAt) begun.push(n);
}
await agenda.stop().catch((err) => errors.push(err.name));
console.log(JSON.stringify({ ordered: ordered.length, begun: begun.length, lost: missing.filter((n) => !begun.includes(n)), twice: Object.values(ran).filter((times) => times > 1).length, errors }));
process.exit();
