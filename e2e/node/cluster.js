// A cluster on this machine, each part a process: config servers and shards of one member
// each, and routers.
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

export class Part {
  constructor(dir, name, port, args) {
    Object.assign(this, { name, port, args, host: `localhost:${port}`, set: `${name}/localhost:${port}`, log: path.join(dir, `${name}.log`) });
    this.start();
  }

  get uri() { return `mongodb://${this.host}/?serverSelectionTimeoutMS=60000`; }

  start() {
    const log = fs.openSync(this.log, 'a');
    this.process = spawn(binary, [...this.args, '--port', this.port, '--nounixsocket'], { stdio: ['ignore', log, log] });
    fs.closeSync(log);
  }

  async end(signal) {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    const ended = once(this.process, 'exit');
    this.process.kill(signal);
    await ended;
  }
}

// startCluster runs a cluster until the test ends. Its shards are s0 and on.
export async function startCluster(t, { shards, routers }) {
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
  for (let i = 0; i < routers; i++) cluster.routers.push(await part(`router${i}`, ['router', '--configdb', cluster.config.set]));
  for (let i = 0; i < shards; i++) cluster.shards.push(await member(`s${i}`, '--shardsvr'));
  const client = new MongoClient(cluster.routers[0].uri);
  try {
    for (const s of cluster.shards) {
      await until(`shard ${s.name}`, () => client.db('admin').command({ addShard: s.set, name: s.name }).then(() => true, (err) => {
        if (err.code === undefined) return false; // they start
        throw err;
      }));
    }
  } finally {
    await client.close();
  }
  return cluster;
}
