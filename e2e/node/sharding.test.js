// The manual's page "Hashed Sharding" typed into mongosh, unmodified, before a router of
// three shards, and what else its shell has for sharding.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { startCluster } from './cluster.js';

// prelude is what the scripts below share. try_ prints the code of the error.
const prelude = `
  const config = db.getSiblingDB('config'), admin = db.getSiblingDB('admin');
  const uuid = ns => config.collections.findOne({ _id: ns }).uuid;
  const long = v => typeof v === 'object' && v !== null && v._bsontype === 'Long' ? v.toString() : v instanceof MinKey ? 'min' : v instanceof MaxKey ? 'max' : String(v);
  const chunks = ns => config.chunks.find({ uuid: uuid(ns) }, {}, { promoteLongs: false }).sort({ min: 1 }).toArray();
  const bounds = ns => chunks(ns).map(c => Object.values(c.min).map(long).join('/') + '@' + c.shard).join(' ');
  const spread = ns => ['s0', 's1', 's2'].map(s => config.chunks.countDocuments({ uuid: uuid(ns), shard: s })).join();
  const held = ns => Object.fromEntries(db.getSiblingDB(ns.split('.')[0])[ns.split('.')[1]].aggregate([{ $collStats: { count: {} } }]).toArray().map(d => [d.shard, d.count]));
  const code = f => { try { return 'ok ' + JSON.stringify(f()?.ok ?? null) } catch (e) { return e.code } };
  const until = (what, is) => { for (let i = 0; i < 300; i++) { if (is()) return; sleep(100) } throw new Error('in vain: ' + what) };
`;

function mongosh(router, script) {
  const out = execFileSync('node_modules/.bin/mongosh', ['--quiet', router.uri, '--eval', prelude + script], { encoding: 'utf8' });
  return out.trim().split('\n').map((line) => line.trim());
}

test('mongosh: the page Hashed Sharding', async (t) => {
  const { routers: [router] } = await startCluster(t, { shards: 3, routers: 1 });

  await t.test('shards an empty collection: chunks on every shard, an index, documents by hash', () => {
    assert.deepEqual(mongosh(router, `
      print(sh.shardCollection('database.collection', { field: 'hashed' }).collectionsharded);
      print(bounds('database.collection'));
      use('database');
      print(db.collection.getIndexes().map(i => i.name).join());
      db.collection.insertMany(Array.from({ length: 3000 }, (_, i) => ({ field: i })));
      print(Object.values(held('database.collection')).every(n => n > 900), db.collection.countDocuments());
      print(db.collection.find({ field: 777 }).explain().queryPlanner.winningPlan.stage, db.collection.find({ field: { $lt: 5 } }).explain().queryPlanner.winningPlan.stage);
      print(db.collection.countDocuments({ field: { $in: [1, 2, 3] } }));
      const d = db.collection.getShardDistribution().value;
      print(Object.keys(d).length, d.Totals.docs, d.Totals.chunks);
    `), [
      'database.collection',
      'min@s0 -6148914691236517204@s0 -3074457345618258602@s1 0@s1 3074457345618258602@s2 6148914691236517204@s2',
      '_id_,field_hashed', 'true 3000', 'SINGLE_SHARD SHARD_MERGE', '3', '4 3000 6',
    ]);
  });

  await t.test('compound keys: with the hash first chunks everywhere, later one chunk', () => {
    assert.deepEqual(mongosh(router, `
      sh.shardCollection('database.first', { _id: 'hashed', fieldA: 1 });
      print(spread('database.first'), chunks('database.first')[1].min.fieldA instanceof MinKey);
      sh.shardCollection('database.later', { fieldA: 1, fieldB: 1, fieldC: 'hashed' });
      print(chunks('database.later').length);
      print(db.getSiblingDB('database').later.getIndexes().map(i => i.name).join());
      sh.shardCollection('database.many', { x: 'hashed' }, false, { numInitialChunks: 12 });
      print(spread('database.many'));
    `), ['2,2,2 true', '1', '_id_,fieldA_1_fieldB_1_fieldC_hashed', '4,4,4']);
  });

  await t.test('zones, and chunks that are made within them before there are documents', () => {
    assert.deepEqual(mongosh(router, `
      for (const [s, z] of [['s0', 'DC1'], ['s1', 'DC1'], ['s1', 'DC2'], ['s2', 'DC2']]) sh.addShardToZone(s, z);
      const range = (from, to, zone) => sh.updateZoneKeyRange('database.zoned', { region: from, h: MinKey() }, { region: to, h: MinKey() }, zone).ok;
      print(range('a', 'm', 'DC1'), range('m', 'z', 'DC2'));
      print(sh.shardCollection('database.zoned', { region: 1, h: 'hashed' }, false, { presplitHashedZones: true, numInitialChunks: 500 }).ok);
      const outside = chunks('database.zoned').filter(c => c.min.region >= 'a' && c.min.region < 'm' && c.shard === 's2' || c.min.region >= 'm' && c.min.region < 'z' && c.shard === 's0');
      print(outside.length, spread('database.zoned').split(',').every(n => n > 100));
      db.getSiblingDB('database').zoned.insertMany([{ region: 'b', h: 1 }, { region: 'c', h: 2 }, { region: 'n', h: 3 }]);
      print(db.getSiblingDB('database').zoned.find({ region: 'b', h: 1 }).explain().queryPlanner.winningPlan.stage);
      print(sh.removeRangeFromZone('database.zoned', { region: 'm', h: MinKey() }, { region: 'z', h: MinKey() }).ok, config.tags.countDocuments());
      print(code(() => sh.removeShardFromZone('s2', 'DC2')), code(() => sh.removeShardFromZone('s0', 'DC1')), code(() => sh.removeShardFromZone('s1', 'DC1')));
      sh.addShardToZone('s0', 'all'); sh.addShardToZone('s1', 'all'); sh.addShardToZone('s2', 'all');
      sh.updateZoneKeyRange('database.whole', { h: MinKey() }, { h: MaxKey() }, 'all');
      sh.shardCollection('database.whole', { h: 'hashed' }, false, { presplitHashedZones: true, numInitialChunks: 100 });
      print(spread('database.whole'));
    `), ['1 1', '1', '0 true', 'SINGLE_SHARD', '1 1', 'ok 1 ok 1 163', '34,34,34']);
  });

  await t.test('hashes, sh.status() and where data lies', () => {
    assert.deepEqual(mongosh(router, `
      print(long(convertShardKeyToHashed(777)), long(convertShardKeyToHashed(ObjectId('5b2be413c06d924ab26ff9ca'))), long(convertShardKeyToHashed('string to hash')));
      print(long(convertShardKeyToHashed(null)), convertShardKeyToHashed(2.9).equals(convertShardKeyToHashed(2)));
      const s = sh.status().value;
      print(s.shards.map(x => x._id).join(), s.balancer['Currently enabled'], s['active mongoses'].length, s.databases.map(d => d.database._id).sort().join());
      print(Object.keys(s.databases.find(d => d.database._id === 'database').collections).length >= 5);
      const d = sh.getShardedDataDistribution().toArray().find(d => d.ns === 'database.collection');
      print(d.shards.map(x => x.shardName).sort().join(), d.shards.reduce((n, x) => n + Number(x.numOwnedDocuments), 0), d.shards.every(x => Number(x.numOrphanedDocs) === 0));
    `), [
      '-8990214526626424009 2523394966799057167 763543691661428748', '2338878944348059895 true',
      's0,s1,s2 yes 1 config,database', 'true', 's0,s1,s2 3000 true',
    ]);
  });

  await t.test('the balancer is stopped and started, for all and for one collection', () => {
    assert.deepEqual(mongosh(router, `
      print(sh.getBalancerState(), sh.stopBalancer().ok, sh.getBalancerState(), sh.isBalancerRunning().mode, sh.startBalancer().ok, sh.getBalancerState(), sh.isBalancerRunning().mode);
      sh.disableBalancing('database.collection');
      print(config.collections.findOne({ _id: 'database.collection' }).noBalance, sh.balancerCollectionStatus('database.collection').balancerCompliant);
      sh.enableBalancing('database.collection');
      print(config.collections.findOne({ _id: 'database.collection' }).noBalance, sh.balancerCollectionStatus('database.collection').chunkSize);
      print(code(() => sh.balancerCollectionStatus('database.none')));
    `), ['true 1 false off 1 true full', 'true true', 'false 128', '118']);
  });

  await t.test('why a collection is not balanced, by the snippet of console/mongosh', () => {
    assert.deepEqual(mongosh(router, `
      load('../../console/mongosh/index.js');
      sh.stopBalancer();
      sh.shardCollection('database.why', { x: 1 });
      const other = chunks('database.why')[0].shard === 's0' ? 's1' : 's0';
      sh.addShardToZone(other, 'elsewhere');
      sh.updateZoneKeyRange('database.why', { x: MinKey() }, { x: MaxKey() }, 'elsewhere');
      print(sh.whyNotBalanced()['database.why']);
      sh.removeRangeFromZone('database.why', { x: MinKey() }, { x: MaxKey() });
      sh.removeShardFromZone(other, 'elsewhere');
      db.getSiblingDB('database').why.drop();
      print('dropped: ' + Object.keys(sh.whyNotBalanced()).includes('database.why'));
      sh.startBalancer();
    `).filter((line) => /^(database\.why|zoneViolation|dropped)/.test(line)),
    ['database.why: zoneViolation (the balancer is off)', 'zoneViolation (the balancer is off)', 'dropped: false']);
  });

  await t.test('the hashed index is dropped, chunks go on to move, and documents are found', () => {
    assert.deepEqual(mongosh(router, `
      use('database');
      sh.stopBalancer();
      print(sh.getShardedDataDistribution().toArray().find(d => d.ns === 'database.collection').shards.every(x => Number(x.numOrphanedDocs) === 0));
      print(db.collection.dropIndex('field_hashed').ok, db.collection.getIndexes().map(i => i.name).join());
      sh.startBalancer();
      print(sh.moveChunk('database.collection', { field: 777 }, 's0').ok, sh.moveRange('database.collection', 's2', { field: MinKey() }).ok);
      print(db.collection.countDocuments(), db.collection.find({ field: 777 }).itcount(), spread('database.collection').split(',').map(Number).reduce((a, b) => a + b));
      db.later.createIndex({ fieldA: 1 });
      print(code(() => db.later.dropIndex('fieldA_1_fieldB_1_fieldC_hashed')));
      sh.shardCollection('database.ranged', { x: 1 });
      print(code(() => db.ranged.dropIndex('x_1')));
    `), ['true', '1 _id_', '1 1', '3000 1 6', 'ok 1', '370']);
  });

  await t.test('a collection gets another shard key, and its own again', () => {
    assert.deepEqual(mongosh(router, `
      use('app');
      sh.shardCollection('app.c', { x: 1 });
      db.c.insertMany(Array.from({ length: 1000 }, (_, i) => ({ _id: i, x: i, k: i % 100 })));
      const before = uuid('app.c').toString();
      const reply = sh.reshardCollection('app.c', { k: 'hashed' });
      print(reply.ok, Number(reply.writesBlockedMillis) >= 0, uuid('app.c').toString() !== before, JSON.stringify(config.collections.findOne({ _id: 'app.c' }).key));
      print(bounds('app.c').split(' ').length, spread('app.c'), Object.values(held('app.c')).every(n => n > 0), db.c.countDocuments(), db.c.countDocuments({ k: 7 }));
      print(db.c.getIndexes().map(i => i.name).join(), db.c.find({ k: 7 }).explain().queryPlanner.winningPlan.stage);
      print(sh.reshardCollection('app.c', { x: 1 }, false, { numInitialChunks: 5 }).ok, bounds('app.c').split(' ').length, db.c.countDocuments({ x: { $lt: 10 } }));
      print(code(() => sh.commitReshardCollection('app.c')), code(() => sh.abortReshardCollection('app.c')), code(() => sh.reshardCollection('app.c', { x: 1 }, true)), code(() => sh.reshardCollection('app.none', { x: 1 })));
      print(db.getSiblingDB('admin').aggregate([{ $currentOp: { allUsers: true, localOps: false } }, { $match: { type: 'op', 'originatingCommand.reshardCollection': 'app.c' } }]).toArray().length);
    `), ['1 true true {"k":"hashed"}', '6 2,2,2 true 1000 10', '_id_,x_1,k_hashed SINGLE_SHARD', '1 5 10', '339 339 2 118', '0']);
  });

  await t.test('the balancer evens out what grows on one shard', () => {
    assert.deepEqual(mongosh(router, `
      use('database');
      print(db.zoned.drop(), db.whole.drop(), config.tags.countDocuments({ ns: 'database.zoned' }));
      sh.shardCollection('database.filling', { x: 1 });
      print(admin.runCommand({ configureCollectionBalancing: 'database.filling', chunkSize: 1 }).ok);
      const pad = 'x'.repeat(4000);
      for (let i = 0; i < 3000; i += 500) db.filling.insertMany(Array.from({ length: 500 }, (_, j) => ({ x: i + j, pad })));
      until('documents on every shard', () => { const n = Object.values(held('database.filling')); return n.length === 3 && n.every(x => x > 0) });
      print(db.filling.countDocuments(), db.filling.aggregate([{ $group: { _id: null, n: { $sum: '$x' } } }]).toArray()[0].n);
    `), ['true true 0', '1', '3000 4498500']);
  });

  await t.test('bad input, each with its code', () => {
    const cases = [
      ['sh.shardCollection("database.e", {})', 2],
      ['sh.shardCollection("database.e", { a: -1 })', 2],
      ['sh.shardCollection("database.e", { a: "hahashed" })', 2],
      ['sh.shardCollection("database.e", { a: "hashed", b: "hashed" })', 2],
      ['sh.shardCollection("database.e", { "a..b": 1 })', 2],
      ['sh.shardCollection("database.e", { a: "hashed" }, true)', 72],
      ['admin.runCommand({ shardCollection: "database.e" })', 40414],
      ['admin.runCommand({ shardCollection: "database.e", key: 5 })', 14],
      ['admin.runCommand({ shardCollection: "nodot", key: { a: 1 } })', 73],
      ['sh.shardCollection("admin.e", { a: 1 })', 20],
      ['sh.shardCollection("local.e", { a: 1 })', 72],
      ['db.getSiblingDB("database").createCollection("capped", { capped: true, size: 4096 }), sh.shardCollection("database.capped", { a: 1 })', 72],
      ['db.getSiblingDB("database").createView("view", "collection", []), sh.shardCollection("database.view", { a: 1 })', 166],
      ['db.getSiblingDB("database").createCollection("french", { collation: { locale: "fr" } }), sh.shardCollection("database.french", { a: 1 })', 2],
      ['sh.shardCollection("database.e", { a: "hashed" }, false, { collation: { locale: "fr" } })', 2],
      ['db.getSiblingDB("database").full.insertOne({ a: 1 }), sh.shardCollection("database.full", { a: 1 })', 72],
      ['db.getSiblingDB("database").sparse.createIndex({ a: 1 }, { sparse: true }), db.getSiblingDB("database").sparse.insertOne({ a: 1 }), sh.shardCollection("database.sparse", { a: 1 })', 72],
      ['db.getSiblingDB("database").once.createIndex({ b: 1 }, { unique: true }), sh.shardCollection("database.once", { a: 1 })', 72],
      ['sh.shardCollection("database." + "x".repeat(230), { a: 1 })', 73],
      ['db.getSiblingDB("database").twice.createIndex({ a: 1 }), sh.shardCollection("database.twice", { a: 1 }, true)', 72],
      ['db.getSiblingDB("database").partial.createIndex({ a: 1 }, { partialFilterExpression: { b: 1 } }), db.getSiblingDB("database").partial.insertOne({ a: 1 }), sh.shardCollection("database.partial", { a: 1 })', 72],
      ['db.getSiblingDB("database").other.createIndex({ a: 1 }, { collation: { locale: "fr" } }), db.getSiblingDB("database").other.insertOne({ a: 1 }), sh.shardCollection("database.other", { a: 1 })', 72],
      ['db.getSiblingDB("database").arrays.createIndex({ a: 1 }), db.getSiblingDB("database").arrays.insertOne({ a: [1, 2] }), sh.shardCollection("database.arrays", { a: 1 })', 72],
      ['admin.runCommand({ shardCollection: "database.e", key: { a: 1 }, implicitlyCreateIndex: false })', 6373200],
      ['sh.shardCollection("database.e", { a: 1 }, false, { numInitialChunks: 4 })', 72],
      ['sh.shardCollection("database.e", { a: 1, b: "hashed" }, false, { numInitialChunks: 4 })', 72],
      ['db.getSiblingDB("database").some.createIndex({ a: "hashed" }), db.getSiblingDB("database").some.insertOne({ a: 1 }), sh.shardCollection("database.some", { a: "hashed" }, false, { numInitialChunks: 4 })', 72],
      ['admin.runCommand({ enableSharding: "DATABASE" })', 13297],
      ['db.getSiblingDB("database").runCommand({ shardCollection: "database.e", key: { a: 1 } })', 13],
      ['sh.shardCollection("database.collection", { other: 1 })', 23],
      ['sh.shardCollection("database.e", { a: "hashed" }, false, { numInitialChunks: -1 })', 72],
      ['sh.shardCollection("database.e", { a: "hashed" }, false, { numInitialChunks: 100000 })', 72],
      ['sh.shardCollection("database.e", { a: "hashed" }, false, { presplitHashedZones: true })', 31387],
      ['sh.updateZoneKeyRange("database.z1", { a: 0 }, { a: 10 }, "all"), sh.shardCollection("database.z1", { b: 1 })', 72],
      ['sh.updateZoneKeyRange("database.z2", { a: 5 }, { a: MaxKey() }, "all"), sh.shardCollection("database.z2", { a: "hashed" })', 72],
      ['sh.updateZoneKeyRange("database.z3", { a: MinKey() }, { a: NumberLong("0") }, "all"), sh.shardCollection("database.z3", { a: "hashed" }, false, { presplitHashedZones: true })', 31412],
      ['sh.updateZoneKeyRange("database.z4", { r: MinKey(), h: MinKey() }, { r: 1, h: MinKey() }, "all"), sh.shardCollection("database.z4", { r: 1, h: "hashed" }, false, { presplitHashedZones: true })', 31388],
      ['sh.updateZoneKeyRange("database.z5", { r: 1, h: NumberLong("5") }, { r: 2, h: MinKey() }, "all"), sh.shardCollection("database.z5", { r: 1, h: "hashed" }, false, { presplitHashedZones: true })', 31389],
      ['sh.updateZoneKeyRange("database.z6", { r: 1, h: MinKey() }, { r: 1, h: MaxKey() }, "all"), sh.shardCollection("database.z6", { r: 1, h: "hashed" }, false, { presplitHashedZones: true })', 31390],
      ['sh.updateZoneKeyRange("database.z7", { r: 1, h: MinKey(), x: 1 }, { r: 2, h: MinKey(), x: 1 }, "all"), sh.shardCollection("database.z7", { r: 1, h: "hashed", x: 1 }, false, { presplitHashedZones: true })', 31391],
      ['sh.addShardToZone("none", "all")', 70],
      ['sh.updateZoneKeyRange("database.z8", { a: 1 }, { a: 2 }, "nowhere")', 177],
      ['sh.updateZoneKeyRange("database.collection", { other: 1 }, { other: 2 }, "all")', 61],
      ['sh.updateZoneKeyRange("database.collection", { field: 1 }, { field: 2 }, "all")', 72],
      ['sh.updateZoneKeyRange("database.ranged", { x: 1 }, { x: 10 }, "all"), sh.updateZoneKeyRange("database.ranged", { x: 5 }, { x: 15 }, "all")', 178],
      ['sh.updateZoneKeyRange("database.ranged", { x: 50 }, { x: 50 }, "all")', 9],
      ['sh.updateZoneKeyRange("database.ranged", { x: [1] }, { x: [2] }, "all")', 2],
    ];
    const script = cases.map(([text]) => `print(code(() => (${text})));`).join('\n');
    const got = mongosh(router, script);
    assert.deepEqual(cases.map(([text], i) => `${text}: ${got[i]}`), cases.map(([text, want]) => `${text}: ${want}`));
  });
});

test('mongosh: one set that is config servers and a shard, and its way back', async (t) => {
  const { routers: [router], shards: [s0] } = await startCluster(t, { shards: 1, routers: 1 });
  assert.deepEqual(mongosh(router, `
    print(sh.isConfigShardEnabled().enabled, admin.runCommand({ transitionToDedicatedConfigServer: 1 }).state);
    print(admin.runCommand({ transitionFromDedicatedConfigServer: 1 }).ok, sh.isConfigShardEnabled().enabled, sh.listShards().map(s => s._id).join());
    print(code(() => sh.addShard(admin.runCommand({ getShardMap: 1 }).map.config)));
    print(['removeShard', 'startShardDraining', 'stopShardDraining', 'commitShardRemoval'].map(c => code(() => admin.runCommand({ [c]: 'config' }))).join(), code(() => sh.shardDrainingStatus('config')));
    print(sh.enableSharding('app', 'config').ok, sh.shardCollection('app.events', { user: 'hashed' }).ok);
    use('app');
    db.events.insertMany(Array.from({ length: 1000 }, (_, i) => ({ user: i })));
    db.plain.insertOne({ _id: 1 });
    print(Object.values(held('app.events')).every(n => n > 400), db.events.find({ user: 7 }).explain().queryPlanner.winningPlan.shards.length);
    const stats = () => db.events.getShardDistribution().value;
    print(Object.keys(stats()).length);
    print(code(() => sh.shardDrainingStatus('s0')), code(() => admin.runCommand({ commitShardRemoval: 's0' })), code(() => sh.shardDrainingStatus('none')));
    print(admin.runCommand({ startShardDraining: 's0' }).ok, sh.listShards({ draining: true }).map(s => s._id).join(), config.shards.findOne({ _id: 's0' }).draining);
    print(code(() => admin.runCommand({ transitionToDedicatedConfigServer: 1 })));
    until('s0 is empty', () => sh.shardDrainingStatus('s0').state === 'drainingComplete');
    print(admin.runCommand({ commitShardRemoval: 's0' }).ok, sh.listShards().map(s => s._id).join(), db.events.countDocuments());
    print(code(() => admin.runCommand({ transitionToDedicatedConfigServer: 1 })));
    print(sh.addShard('${s0.set}').shardAdded);
    const begun = admin.runCommand({ transitionToDedicatedConfigServer: 1 });
    print(begun.state, begun.dbsToMove.join(), begun.collectionsToMove.length);
    print(sh.getTransitionToDedicatedConfigServerStatus().state);
    print(admin.runCommand({ movePrimary: 'app', to: 's0' }).ok);
    until('the config servers are dedicated', () => admin.runCommand({ transitionToDedicatedConfigServer: 1 }).state === 'completed');
    print(sh.isConfigShardEnabled().enabled, spread('app.events').endsWith(',0,0'), db.events.countDocuments(), db.plain.countDocuments());
    sh.status();
  `).slice(0, 18), [
    'false completed', '1 true config,s0', '96', '20,20,20,20 20', '1 1', 'true 1', '3',
    '117 117 70', '1 s0 true', '117', '1 config 1000', '20', 's0', 'started app 0', 'ongoing', '1', 'false true 1000 1', 'shardingVersion',
  ]);
});
