// mongo-express, unmodified, serves its pages with Mayfly behind it.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { test } from 'node:test';
import { MongoClient } from 'mongodb';
import { freePort } from './process.js';
import { until } from './until.js';

const uri = process.env.MAYFLY_URI;

test('mongo-express: databases, collections, documents', async () => {
  const client = await MongoClient.connect(uri);
  const db = client.db('e2e_express');
  await db.dropDatabase();
  await db.collection('things').insertMany([{ _id: 'first', n: 1 }, { _id: 'second', n: 2 }]);
  const port = await freePort();
  const app = spawn(process.execPath, ['node_modules/mongo-express/app.js'], {
    env: {
      ...process.env, PORT: String(port), VCAP_APP_HOST: '127.0.0.1', ME_CONFIG_MONGODB_URL: `${uri}/`, ME_CONFIG_MONGODB_ENABLE_ADMIN: 'true',
      ME_CONFIG_BASICAUTH_USERNAME: '', ME_CONFIG_SITE_COOKIESECRET: 'c', ME_CONFIG_SITE_SESSIONSECRET: 's',
    },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const base = `http://127.0.0.1:${port}`;
  const page = async (path) => {
    const r = await fetch(base + path);
    assert.equal(r.status, 200, path);
    return r.text();
  };
  const send = async (method, path, fields = {}) => {
    const r = await fetch(base + path, { method, body: new URLSearchParams(fields), redirect: 'manual' });
    assert.ok(r.status < 400, `${method} ${path}: ${r.status}`);
  };
  try {
    await until('mongo-express', () => fetch(base).then((r) => r.ok, () => false));
    const front = await page('/');
    assert.match(front, /e2e_express/);
    assert.match(front, /8\.0/); // the server's version, from serverStatus
    assert.match(await page('/db/e2e_express'), /things/);
    const list = await page('/db/e2e_express/things');
    assert.match(list, /first/);
    assert.match(list, /_id_/); // its indexes and their sizes
    assert.match(await page('/db/e2e_express/things?key=n&value=2&type=N'), /second/);
    assert.match(await page(`/db/e2e_express/things?query=${encodeURIComponent('{"n": {"$gt": 1}}')}`), /second/);
    assert.match(await page('/db/e2e_express/things/%22first%22'), /first/);
    await send('POST', '/db/e2e_express/things', { document: '{ "_id": "third", "n": 3 }' });
    assert.equal((await db.collection('things').findOne({ _id: 'third' })).n, 3);
    await send('PUT', '/db/e2e_express/things/%22third%22', { document: '{ "n": 4 }', _method: 'put' });
    assert.equal((await db.collection('things').findOne({ _id: 'third' })).n, 4);
    await send('DELETE', '/db/e2e_express/things/%22third%22', { _method: 'delete' });
    assert.equal(await db.collection('things').countDocuments(), 2);
    await send('POST', '/db/e2e_express', { collection: 'more' });
    assert.match(await page('/db/e2e_express'), /more/);
    await send('POST', '/db/e2e_express/addIndex/things', { index: '{ "n": 1 }' });
    assert.equal((await db.collection('things').indexes()).length, 2);
    assert.match(await page('/db/e2e_express/export/things'), /"_id":"first"/);
    await send('DELETE', '/db/e2e_express/more', { _method: 'delete' });
    assert.equal((await db.listCollections({ name: 'more' }).toArray()).length, 0);
    await send('DELETE', '/e2e_express', { _method: 'delete' });
    assert.ok(!(await client.db().admin().listDatabases()).databases.some((d) => d.name === 'e2e_express'));
  } finally {
    app.kill();
    await client.close();
  }
});
