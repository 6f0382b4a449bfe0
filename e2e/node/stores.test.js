// Stores, mappers and migrations of strangers make TTL indexes by their own
// means, and see what they keep leave.
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import KeyvMongo from '@keyv/mongo';
import { EntitySchema, MikroORM } from '@mikro-orm/mongodb';
import connectSession from 'connect-mongodb-session';
import session from 'express-session';
import Keyv from 'keyv';
import { config, database, down, status, up } from 'migrate-mongo';
import { MongoClient } from 'mongodb';
import { RateLimiterMongo } from 'rate-limiter-flexible';
import { Column, DataSource, Entity, Index, ObjectIdColumn } from 'typeorm';
import { until } from './until.js';

const uri = process.env.MAYFLY_URI;
const seconds = 5; // how long things live: more than a busy machine stalls

// withDatabase runs f with an empty database of a client, which looks on.
async function withDatabase(name, f) {
  const client = await MongoClient.connect(uri);
  try {
    await client.db(name).dropDatabase();
    await f(client.db(name), client);
  } finally {
    await client.close();
  }
}

// expires asserts that a collection has a TTL index with a field in front.
async function expires(c, field, after) {
  const index = (await c.indexes()).find((i) => Object.keys(i.key)[0] === field);
  assert.equal(index?.expireAfterSeconds, after);
}

const gone = (c, filter = {}) => until(`the removal from ${c.collectionName}`, async () => (await c.countDocuments(filter)) === 0);

test('rate-limiter-flexible: the points come back when the document has left', () =>
  withDatabase('e2e_limits', async (db, client) => {
    const limiter = new RateLimiterMongo({ storeClient: client, dbName: 'e2e_limits', tableName: 'limits', keyPrefix: 'k', points: 2, duration: seconds });
    await limiter.consume('ann');
    assert.equal((await limiter.consume('ann')).remainingPoints, 0);
    await assert.rejects(limiter.consume('ann'), (r) => r.msBeforeNext > 0);
    await expires(db.collection('limits'), 'expire', 0);
    await gone(db.collection('limits'));
    assert.equal((await limiter.consume('ann')).remainingPoints, 1);
  }));

test('keyv: a value with a life leaves, one without stays', () =>
  withDatabase('e2e_keyv', async (db) => {
    const store = new KeyvMongo(uri, { db: 'e2e_keyv', collection: 'keyv' });
    const keyv = new Keyv({ store });
    try {
      await keyv.set('short', { v: 1 }, seconds * 1000);
      await keyv.set('long', { v: 2 });
      assert.deepEqual(await keyv.get('short'), { v: 1 });
      const c = db.collection('keyv');
      await expires(c, 'expiresAt', 0);
      await gone(c, { key: /short/ });
      assert.equal(await keyv.get('short'), undefined);
      assert.deepEqual(await keyv.get('long'), { v: 2 });
    } finally {
      await keyv.disconnect();
    }
  }));

test('connect-mongodb-session: a session is stored, found, and leaves', () =>
  withDatabase('e2e_connect', async (db) => {
    const Store = connectSession(session);
    const store = new Store({ uri, databaseName: 'e2e_connect', collection: 'sessions', expires: seconds * 1000 });
    const call = (method, ...args) => new Promise((resolve, reject) => store[method](...args, (err, v) => (err ? reject(err) : resolve(v))));
    try {
      await call('set', 's1', { cookie: {}, user: 'ann' });
      assert.equal((await call('get', 's1')).user, 'ann');
      await expires(db.collection('sessions'), 'expires', 0);
      await gone(db.collection('sessions'));
      assert.ok(!(await call('get', 's1')));
    } finally {
      await store.client.close();
    }
  }));

test('migrate-mongo: up makes a TTL index that works, down takes it away', () =>
  withDatabase('e2e_migrate', async (db) => {
    const dir = await mkdtemp(join(tmpdir(), 'migrations-'));
    try {
      await writeFile(join(dir, '20260101000000-ttl.mjs'), `
        export const up = async (db) => { await db.collection('t').createIndex({ at: 1 }, { name: 'ttl', expireAfterSeconds: ${seconds} }); };
        export const down = async (db) => { await db.collection('t').dropIndex('ttl'); };`);
      config.set({
        mongodb: { url: uri, databaseName: 'e2e_migrate', options: {} }, migrationsDir: dir, changelogCollectionName: 'changelog',
        lockCollectionName: 'lock', lockTtl: 60, migrationFileExtension: '.mjs', useFileHash: false, moduleSystem: 'esm',
      });
      const { db: theirs, client } = await database.connect();
      try {
        assert.deepEqual(await up(theirs, client), ['20260101000000-ttl.mjs']);
        const c = db.collection('t');
        await expires(c, 'at', seconds);
        await c.insertOne({ at: new Date() });
        await gone(c);
        assert.notEqual((await status(theirs))[0].appliedAt, 'PENDING');
        await down(theirs, client);
        assert.deepEqual((await c.indexes()).map((i) => i.name), ['_id_']);
      } finally {
        await client.close();
      }
    } finally {
      await rm(dir, { recursive: true });
    }
  }));

test('TypeORM: the index of an entity removes its documents', () =>
  withDatabase('e2e_typeorm', async (db) => {
    // Decorators as functions: JavaScript has none.
    class Token {}
    Entity('token')(Token);
    Index('ttl', ['at'], { expireAfterSeconds: seconds })(Token);
    ObjectIdColumn()(Token.prototype, '_id');
    Column({ type: 'string' })(Token.prototype, 'v');
    Column({ type: 'date' })(Token.prototype, 'at');
    const source = await new DataSource({ type: 'mongodb', url: `${uri}/e2e_typeorm`, entities: [Token], synchronize: true }).initialize();
    try {
      const tokens = source.getMongoRepository(Token);
      await expires(db.collection('token'), 'at', seconds);
      await tokens.save([{ v: 'short', at: new Date() }, { v: 'long', at: new Date(Date.now() + 3600e3) }]);
      await until('the token to go', async () => (await tokens.countBy({ v: 'short' })) === 0);
      assert.deepEqual((await tokens.find()).map((t) => t.v), ['long']);
    } finally {
      await source.destroy();
    }
  }));

test('MikroORM: the index of an entity removes its documents', () =>
  withDatabase('e2e_mikro', async (db) => {
    const Token = new EntitySchema({
      name: 'Token', collection: 'token',
      properties: { _id: { type: 'ObjectId', primary: true }, v: { type: 'string' }, at: { type: 'Date' } },
      indexes: [{ name: 'ttl', properties: 'at', options: { expireAfterSeconds: seconds } }],
    });
    const orm = await MikroORM.init({ clientUrl: uri, dbName: 'e2e_mikro', entities: [Token], ensureIndexes: true });
    try {
      await expires(db.collection('token'), 'at', seconds);
      const em = orm.em.fork();
      em.create('Token', { v: 'short', at: new Date() });
      em.create('Token', { v: 'long', at: new Date(Date.now() + 3600e3) });
      await em.flush();
      await until('the token to go', async () => (await orm.em.fork().count('Token', { v: 'short' })) === 0);
      assert.deepEqual((await orm.em.fork().find('Token', {})).map((t) => t.v), ['long']);
    } finally {
      await orm.close();
    }
  }));
