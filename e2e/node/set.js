// A replica set of three processes on this machine, for tests that disturb it.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { MongoClient } from 'mongodb';
import { until } from './until.js';

const binary = process.env.MAYFLY_BIN ?? '../../bin/mayfly';

const freePort = () => new Promise((resolve) => {
  const server = net.createServer().listen(0, '127.0.0.1', () => {
    const { port } = server.address();
    server.close(() => resolve(port));
  });
});

class Member {
  constructor(port, dbpath) {
    Object.assign(this, { port, dbpath, host: `localhost:${port}` });
    fs.mkdirSync(dbpath);
    this.start();
  }

  start() {
    const log = fs.openSync(`${this.dbpath}.log`, 'a');
    const args = ['serve', '--nounixsocket', '--dbpath', this.dbpath, '--port', this.port, '--replSet', 'rs0'];
    this.process = spawn(binary, args, { stdio: ['ignore', log, log] });
    fs.closeSync(log);
  }

  async end(signal) {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    const ended = once(this.process, 'exit');
    this.process.kill(signal);
    await ended;
  }

  // admin runs a command on this member, whatever it is in the set.
  async admin(command) {
    const client = new MongoClient(`mongodb://${this.host}/?directConnection=true`, { serverSelectionTimeoutMS: 5000 });
    try {
      return await client.db('admin').command(command);
    } finally {
      await client.close();
    }
  }
}

// startMembers starts processes that are of no set yet, until the test ends.
export async function startMembers(t, n) {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'mayfly-set-'));
  const members = [];
  t.after(async () => {
    await Promise.all(members.map((m) => m.end('SIGTERM')));
    fs.rmSync(dir, { recursive: true });
  });
  for (let i = 0; i < n; i++) members.push(new Member(await freePort(), path.join(dir, String(i))));
  return members;
}

// startSet makes a set of members that it starts, and returns them.
export async function startSet(t, n) {
  const members = await startMembers(t, n);
  const config = { _id: 'rs0', members: members.map((m, i) => ({ _id: i, host: m.host })) };
  await until('the set', () => members[0].admin({ replSetInitiate: config }).then(() => true, (err) => {
    if (err.code === undefined || err.codeName === 'NodeNotFound') return false; // they start
    throw err;
  }));
  return members;
}

// primaryOf waits until one of the members takes writes.
export async function primaryOf(members) {
  let primary;
  await until('a primary', async () => {
    for (const m of members) {
      const hello = await m.admin({ hello: 1 }).catch(() => ({}));
      if (hello.isWritablePrimary) {
        primary = m;
        return true;
      }
    }
    return false;
  });
  return primary;
}
