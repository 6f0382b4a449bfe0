// A replica set of three processes on this machine, for tests that disturb it.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { MongoClient } from 'mongodb';
import { freePort, Process } from './process.js';
import { until } from './until.js';

class Member extends Process {
  constructor(port, dbpath, options) {
    fs.mkdirSync(dbpath);
    super(port, ['serve', '--dbpath', dbpath, '--replSet', 'rs0', ...options], `${dbpath}.log`);
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

// startMembers starts processes that are of no set yet, until the test ends. options returns further
// options of one.
export async function startMembers(t, n, options = () => []) {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'mayfly-set-'));
  const members = [];
  t.after(async () => {
    await Promise.all(members.map((m) => m.end('SIGTERM')));
    fs.rmSync(dir, { recursive: true });
  });
  for (let i = 0; i < n; i++) members.push(new Member(await freePort(), path.join(dir, String(i)), await options(i)));
  return members;
}

// startSet makes a set of members that it starts, and returns them.
export async function startSet(t, n, options) {
  const members = await startMembers(t, n, options);
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
