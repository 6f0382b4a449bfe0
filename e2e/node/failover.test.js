// Mongoose, connect-mongo and agenda, unmodified, through a set whose primary is killed
// now and then: what was acknowledged is there, once.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import MongoStore from 'connect-mongo';
import express from 'express';
import session from 'express-session';
import mongoose from 'mongoose';
import { primaryOf, startSet } from './set.js';
import { until } from './until.js';

const rounds = 4;
const pause = (ms) => new Promise((r) => setTimeout(r, ms));

// broken says that a connection broke. The driver passes the socket's own error on where its
// write had to wait.
const broken = (err) => err.name.startsWith('MongoNetwork') || err.code === 'EPIPE' || err.code === 'ECONNRESET';

// repeat calls f with 0, 1, 2, … until it is told to end. A call that ends with a broken
// connection counts among the unknown: where two break at once, as they do when a process
// is killed, this driver tries again only what went by the first.
function repeat(every, f) {
  let over = false;
  const done = [];
  let unknown = 0;
  const work = (async () => {
    for (let n = 0; !over; n++) {
      try {
        await f(n, done.length, unknown);
        done.push(n);
      } catch (err) {
        if (!broken(err) || err.hasErrorLabel?.('RetryableWriteError')) throw err;
        unknown++;
      }
      await pause(every);
    }
  })();
  let failed;
  work.catch((err) => { failed = err; });
  return {
    count() {
      if (failed) throw failed;
      return done.length;
    },
    stop: () => { over = true; },
    end: async () => { over = true; await work; return { done, unknown }; },
  };
}

const within = (n, least, more) => assert.ok(n >= least && n <= least + more, `${n} is not from ${least} to ${least + more}`);

// An app has count, which rises while it goes on; end, which ends it and judges; and stop,
// which lets go of all that would keep this process alive, whatever has become of the app.

async function shop(uri) {
  const db = await mongoose.createConnection(uri, { dbName: 'shop' }).asPromise();
  const Order = db.model('Order', new mongoose.Schema({ n: { type: Number, unique: true }, lines: [String] }, { timestamps: true }));
  const Stock = db.model('Stock', new mongoose.Schema({ sold: Number }));
  await Order.init();
  const stock = await Stock.create({ sold: 0 });
  const orders = repeat(5, async (n) => {
    const order = await Order.create({ n, lines: ['a'] });
    order.lines.push('b');
    await order.save();
    await Stock.updateOne({ _id: stock._id }, { $inc: { sold: 1 } });
  });
  return {
    count: orders.count,
    stop() {
      orders.stop();
      return db.close();
    },
    async end() {
      const { done, unknown } = await orders.end();
      assert.equal(await Order.countDocuments({ n: { $in: done }, lines: ['a', 'b'] }), done.length);
      within(await Order.countDocuments(), done.length, unknown);
      within((await Stock.findById(stock._id)).sold, done.length, unknown);
    },
  };
}

async function web(uri) {
  const store = MongoStore.create({ mongoUrl: uri, dbName: 'web', ttl: 600, touchAfter: 0 });
  const app = express();
  app.use(session({ secret: 's', resave: false, saveUninitialized: false, store }));
  app.get('/', (req, res) => { req.session.visits = (req.session.visits ?? 0) + 1; res.send(String(req.session.visits)); });
  // A session is saved when its answer is written already: then only the log hears of it.
  let broke;
  let unsaved = 0;
  app.use((err, req, res, next) => {
    broke = err;
    unsaved++;
    if (!res.headersSent) res.sendStatus(503);
  });
  const server = app.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const base = `http://127.0.0.1:${server.address().port}`;
  let cookie;
  const visits = repeat(10, async (n, done, unknown) => {
    const r = await fetch(base, { headers: cookie ? { cookie } : {} });
    const text = await r.text();
    if (r.status === 503) throw broke;
    assert.equal(r.status, 200);
    cookie ??= r.headers.get('set-cookie').split(';')[0];
    within(Number(text), done + 1 - unsaved, unknown + unsaved);
  });
  return {
    count: visits.count,
    stop() {
      visits.stop();
      server.closeAllConnections();
      server.close();
      return store.close();
    },
    async end() {
      await visits.end();
    },
  };
}

async function jobs(uri) {
  const [hosts, options] = uri.split('?');
  const app = spawn(process.execPath, ['agenda-app.js', `${hosts}jobs?${options}`], { stdio: ['pipe', 'pipe', 'inherit'] });
  const lines = [];
  createInterface(app.stdout).on('line', (line) => lines.push(line));
  const ended = once(app, 'exit');
  return {
    count: () => lines.length * 10,
    stop: () => app.kill('SIGKILL'),
    async end() {
      app.stdin.end();
      await ended;
      const { ordered, begun, lost, twice, errors } = JSON.parse(lines.at(-1));
      assert.ok(ordered > 0);
      assert.deepEqual(lost, [], `lost after ${errors}`);
      assert.ok(begun <= errors.length, `${begun} jobs were begun and did not run, after ${errors}`);
      assert.ok(twice <= errors.length, `${twice} jobs ran twice, after ${errors}`);
      assert.deepEqual(errors.filter((name) => !name.startsWith('MongoNetwork')), []);
    },
  };
}

test('Mongoose, connect-mongo and agenda: primaries die', async (t) => {
  const started = [];
  t.after(() => Promise.all(started.map(async (app) => (await app).stop()))); // before the set ends
  const members = await startSet(t, 3);
  const uri = `mongodb://${members.map((m) => m.host).join()}/?replicaSet=rs0&serverSelectionTimeoutMS=10000`;
  started.push(shop(uri), web(uri), jobs(uri));
  const apps = await Promise.all(started);
  for (let round = 0; round < rounds; round++) {
    const before = apps.map((a) => a.count());
    await until('all to go on', () => apps.every((a, i) => a.count() > before[i] + 10));
    const primary = await primaryOf(members);
    await primary.end(round % 2 === 0 ? 'SIGKILL' : 'SIGTERM');
    await primaryOf(members);
    primary.start();
    await until('it to be back', async () => (await primary.admin({ hello: 1 }).catch(() => ({}))).secondary === true);
  }
  for (const app of apps) await app.end();
});
