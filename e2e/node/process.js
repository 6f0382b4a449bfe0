// A mayfly process that a test starts, ends and starts again.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';

const binary = process.env.MAYFLY_BIN ?? '../../bin/mayfly';

export const freePort = () => new Promise((resolve) => {
  const server = net.createServer().listen(0, '127.0.0.1', () => {
    const { port } = server.address();
    server.close(() => resolve(port));
  });
});

export class Process {
  // What the process prints is appended to the file log.
  constructor(port, args, log) {
    Object.assign(this, { port, args, log, host: `localhost:${port}` });
    this.start();
  }

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
