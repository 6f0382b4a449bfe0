// A cluster on this machine, each part a process: config servers and shards of one member
// each, and routers.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { MongoClient } from 'mongodb';
import { freePort, Process } from './process.js';
import { until } from './until.js';

export class Part extends Process {
  constructor(dir, name, port, args) {
    super(port, args, path.join(dir, `${name}.log`));
    Object.assign(this, { name, set: `${name}/${this.host}` });
  }

  get uri() { return `mongodb://${this.host}/?serverSelectionTimeoutMS=60000`; }
}

// startCluster runs a cluster until the test ends. Its shards are s0 and on, in the cluster called
// names where they are given.
export async function startCluster(t, { shards, routers, routerOptions = [], names = [] }) {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'mayfly-cluster-'));
  const parts = [];
  t.after(async () => {
    for (const p of parts.toReversed()) await p.end('SIGTERM');
    fs.rmSync(dir, { recursive: true });
  });
  const part = async (name, args) => {
    const p = new Part(dir, name, await freePort(), args);
    parts.push(p);
    return p;
  };
  const member = (name, role) => part(name, ['serve', role, '--replSet', name, '--initiate', '--dbpath', path.join(dir, name), '--setParameter', 'ttlMonitorSleepSecs=1']);
  const cluster = { config: await member('cfg', '--configsvr'), shards: [], routers: [] };
  for (let i = 0; i < routers; i++) cluster.routers.push(await part(`router${i}`, ['router', '--configdb', cluster.config.set, ...routerOptions]));
  for (let i = 0; i < shards; i++) cluster.shards.push(await member(`s${i}`, '--shardsvr'));
  const client = new MongoClient(cluster.routers[0].uri);
  try {
    for (const [i, s] of cluster.shards.entries()) {
      await until(`shard ${s.name}`, () => client.db('admin').command({ addShard: s.set, name: names[i] ?? s.name }).then(() => true, (err) => {
        if (err.code === undefined) return false; // they start
        throw err;
      }));
    }
  } finally {
    await client.close();
  }
  return cluster;
}
