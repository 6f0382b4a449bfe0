// mongosh's functions about replica sets, unmodified, on a set of three processes.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { startMembers } from './set.js';

test('mongosh: a set is made, grows, shows itself, hands over and shrinks', async t => {
  const members = await startMembers(t, 3);
  const script = `
    const hosts = ${JSON.stringify(members.map(m => m.host))};
    const until = (what, is) => {
      for (let i = 0; i < 600; i++) { if (is()) return; sleep(100); }
      throw new Error('in vain: ' + what);
    }
    const states = () => rs.status().members.map(m => m.stateStr).join();
    print('initiate', rs.initiate().ok, rs.status().set);
    until('a primary', () => db.hello().isWritablePrimary);
    print('add', rs.add(hosts[1]).ok);
    until('a second member', () => states() === 'PRIMARY,SECONDARY');
    print('add', rs.add({ host: hosts[2], priority: 0, hidden: true, tags: { dc: 'west' } }).ok);
    until('a third member', () => states() === 'PRIMARY,SECONDARY,SECONDARY');
    print('hosts', rs.conf().members.map(m => hosts.indexOf(m.host)).join());
    print('hello', db.hello().hosts.length, db.hello().primary === hosts[0]);
    print('round trip', rs.reconfig(rs.conf()).ok);
    try { rs.reconfig(rs.conf(), { force: true }) } catch (e) { print('force', e.code) };
    try { rs.syncFrom(hosts[1]) } catch (e) { print('syncFrom', e.code) };
    db.c.insertOne({ a: 1 }, { writeConcern: { w: 3, wtimeout: 30000 } });
    const lag = rs.printSecondaryReplicationInfo().value;
    print('lag', Object.keys(lag).length, Object.values(lag).every(s => s.replLag.startsWith('0 secs')));
    const log = db.getReplicationInfo();
    print('oplog', log.logSizeMB >= 990, log.usedMB >= 0, log.timeDiff >= 0, Object.keys(rs.printReplicationInfo().value).includes("oplog first event time"));
    const other = rs.status().members[1];
    print('status', other.health, other.syncSourceHost === hosts[0], typeof other.pingMs, other.lastHeartbeat instanceof Date);
    print('freeze', (() => { try { rs.freeze(1) } catch (e) { return e.codeName } })());
    print('remove', rs.remove(hosts[2]).ok, rs.conf().members.length);
    print('stepDown', rs.stepDown(60).ok);
    until('another primary', () => db.hello().primary === hosts[1]);
    try { db.c.insertOne({ a: 2 }) } catch (e) { print('write', e.code) };
    print('read', db.getMongo().setReadPref('secondaryPreferred') ?? '', db.c.countDocuments());
  `
  const out = execFileSync('node_modules/.bin/mongosh', ['--quiet', `mongodb://${members[0].host}/?directConnection=true&serverSelectionTimeoutMS=60000&retryWrites=false`, '--eval', script],
    { encoding: 'utf8' });
  assert.deepEqual(out.trim().split('\n').map(line => line.trim()), [
    'initiate 1 rs0', 'add 1', 'add 1', 'hosts 0,1,2', 'hello 2 true', 'round trip 1', 'force 115', 'syncFrom 115', 'lag 2 true', 'oplog true true true true',
    'status 1 true object true', 'freeze NotSecondary', 'remove 1 2', 'stepDown 1', 'write 10107', 'read  1',
  ]);
});
