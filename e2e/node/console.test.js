// The console in a real browser (Debian's Chromium), against a server of its own.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { BSON, Binary, Decimal128, Long, MongoClient, ObjectId } from 'mongodb';
import { Browser, compare, done, logIn as signIn, look, markup, write } from './browser.js';
import { freePort, Process } from './process.js';
import { until } from './until.js';

const hour = 3600_000;

let server, browser, client, db, base, dir;

before(async () => {
  dir = fs.mkdtempSync(path.join(os.tmpdir(), 'console-'));
  const [port, consolePort] = [await freePort(), await freePort()];
  server = new Process(port, [
    'serve', '--auth', '--dbpath', dir, '--console', '--consolePort', consolePort, '--setParameter', 'ttlMonitorSleepSecs=1', '--setParameter', 'ttlMonitorEnabled=true',
    '--setParameter', `archivePlaces=file://${dir}/attic`,
  ], path.join(dir, 'log'));
  base = `http://localhost:${consolePort}`;
  await until('the console', () => fetch(base).then((r) => r.ok, () => false));
  const first = await MongoClient.connect(`mongodb://127.0.0.1:${port}`);
  await first.db('admin').command({ createUser: 'ann', pwd: 'secret', roles: ['root'] });
  await first.close();
  client = await MongoClient.connect(`mongodb://ann:secret@127.0.0.1:${port}`);
  await client.db('admin').command({ createUser: 'reader', pwd: 'secret', roles: [{ role: 'read', db: 'shop' }] });
  db = client.db('shop');
  const now = Date.now();
  const sessions = Array.from({ length: 3000 }, (_, i) => ({ user: i, at: new Date(now + hour * 23 * ((i * 7919) % 3000 / 3000) ** 2) }));
  await db.collection('sessions').createIndex({ at: 1 }, { expireAfterSeconds: 0 });
  await db.collection('sessions').insertMany(sessions);
  await db.collection('carts').createIndex({ _ts: 1 }, { expireAfterSeconds: 6 * 3600, storageEngine: { mayfly: { expiry: { by: 'lastWrite' } } } });
  await db.collection('carts').insertMany(Array.from({ length: 800 }, (_, i) => ({ items: i % 7, ttl: 600 + ((i * 7919) % 800) * 90 })));
  await db.collection('log').insertMany(Array.from({ length: 500 }, (_, i) => ({ text: `line ${i}`, at: new Date(now - i * hour / 4) })));
  await db.collection(markup).createIndex({ [markup.replaceAll('.', '')]: 1 }, { expireAfterSeconds: 60, name: markup });
  await db.collection(markup).insertOne({ [markup.replaceAll('.', '')]: markup });
  await db.collection('things').insertMany([
    { _id: 1, name: 'first', price: Decimal128.fromString('12.50'), stock: Long.fromString('9007199254740993'), at: new Date(now + 26 * hour), tags: ['a', 'b'], of: { 7: 'seven', 1: 'one', deep: { er: true } }, pattern: /^a.c/i, blob: new Binary(Buffer.from('bytes')), none: null },
    { _id: new ObjectId('65f0c0ffee65f0c0ffee65f0'), name: markup, [markup.replaceAll('.', '')]: { [markup.replaceAll('.', '')]: [markup] }, at: [new Date(now + 3 * hour), new Date(now + hour / 4)] },
    { _id: markup, name: 'third', at: 'no date' },
  ]);
  await db.collection('goods').insertMany([{ _id: 1, name: 'a "quoted", one', at: new Date(now), n: Long.fromNumber(7) }, { _id: 2, name: markup, of: { [markup.replaceAll('.', '')]: 1 } }, { _id: 3 }]);
  await db.collection('kept').createIndex({ at: 1 }, { expireAfterSeconds: 60, storageEngine: { mayfly: { expiry: { archive: { to: `file://${dir}/attic/kept` } } } } });
  await db.collection('kept').insertMany([{ at: new Date(now - hour) }, { at: new Date(now - hour) }, { at: new Date(now + hour) }]);
  await db.collection('things').createIndex({ at: 1 }, { expireAfterSeconds: 0 });
  await db.collection('things').createIndex({ name: 1 }, { unique: true });
  await Promise.all(Array.from({ length: 300 }, (_, i) => client.db('many').createCollection(`collection_${i}`)));
  browser = await Browser.launch();
});

after(async () => {
  await browser?.close();
  await client?.close();
  await server?.end('SIGTERM');
  fs.rmSync(dir, { recursive: true });
});

const open = () => browser.open();
const logIn = (page, user = 'ann', hash = '') => signIn(page, base + hash, user);

test('login: a wrong password, a session that lasts and ends, four languages', async () => {
  const page = await open();
  await page.goto(base);
  await look(page, 'login');
  await page.getByLabel('User').fill('ann');
  await page.getByLabel('Password').fill('wrong');
  await page.keyboard.press('Enter');
  await page.getByText('do not fit').waitFor();
  await page.getByLabel('Password').fill('secret');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'What leaves, and when' }).waitFor();
  await page.reload();
  await page.getByRole('heading', { name: 'What leaves, and when' }).waitFor();
  await page.getByText('Settings').click();
  for (const [language, title] of [['ko', '무엇이 언제 떠나는가'], ['ja', '何が、いつ消えるか'], ['zh', '什么会离开，何时离开'], ['en', 'What leaves, and when']]) {
    await page.locator('.settings select').first().selectOption(language);
    await page.getByRole('heading', { name: title }).waitFor();
    assert.equal(await page.evaluate(() => document.documentElement.lang), language);
  }
  const [cookie] = await page.context().cookies();
  assert.ok(cookie.httpOnly && cookie.sameSite === 'Strict');
  // Another page of this browser that has the cookie, and not the token, may do nothing.
  const code = await page.evaluate(() => fetch('/api/run', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '{"db":"shop","command":{"find":"sessions"}}' }).then((r) => r.status));
  assert.equal(code, 401);
  await page.context().clearCookies();
  await page.evaluate(() => (location.hash = '#/data'));
  await page.getByRole('button', { name: 'Log in' }).waitFor(); // the session is gone
  await done(page);
});

test('expiry: rules of all collections, and of one', async () => {
  const page = await open();
  await logIn(page);
  await page.getByRole('link', { name: 'shop.sessions' }).waitFor();
  assert.equal(await page.locator('tbody tr').filter({ has: page.locator('a') }).count(), 5);
  await look(page, 'expiry');
  await compare(page, 'expiry');
  await page.getByText('As a table').click();
  assert.ok(await page.locator('.chart details tbody tr').count() === 25);
  await page.getByText('30 days').click();
  assert.ok(await page.locator('.chart details tbody tr').count() === 31);
  await page.getByText('60 minutes').click();
  assert.ok(await page.locator('.chart details tbody tr').count() === 61);
  await page.locator('.chart svg').focus();
  await page.keyboard.press('ArrowRight');
  await page.getByText(/^Due now: \d+ documents?$/).waitFor();
  await page.getByRole('link', { name: 'shop.sessions' }).click();
  await page.getByRole('heading', { name: 'At the date in “at”' }).waitFor();
  await look(page, 'rule');
  // What a rule has archived.
  await page.goto(`${base}/#/expiry/shop/kept`);
  await page.getByText(/file:.*attic\/kept · 2 documents · 1 object, /).waitFor({ timeout: 20_000 });
  await done(page);
});

test('expiry: a rule is made after its dry run, changed, paused, and documents leave', async () => {
  const page = await open();
  await logIn(page, 'ann', '/#/expiry/shop/log');
  await page.getByText('No rule yet').waitFor();
  await page.getByRole('button', { name: 'New rule' }).click();
  await page.getByLabel('Field with the date').fill('at');
  await page.locator('.outcome').getByText('404 documents').waitFor(); // older than a day
  assert.equal(await db.collection('log').countDocuments(), 500, 'a dry run changes nothing');
  const make = page.getByRole('button', { name: 'Make the rule' });
  assert.ok(await make.isDisabled(), 'what is due at once has to be acknowledged');
  await look(page, 'make');
  // The command can be copied, and is what mongosh takes.
  await page.getByRole('button', { name: 'Copy' }).click();
  assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^db\.getSiblingDB\("shop"\)\.runCommand\(\{/);
  await page.getByRole('textbox', { name: 'After' }).fill('10');
  await page.getByLabel('Unit').selectOption('day');
  await page.locator('.outcome').getByText('0 documents').waitFor();
  await make.click();
  await page.getByRole('heading', { name: /10 days after/ }).waitFor();

  // A budget and a window, with what they would do; each is taken away again.
  await page.getByRole('button', { name: 'Limits' }).click();
  const limits = page.getByRole('dialog');
  assert.ok(await limits.getByRole('button', { name: 'Set the limits' }).isDisabled(), 'nothing is changed');
  await limits.getByLabel('Documents a second').fill('20');
  await limits.getByLabel('Removes from').fill('22:00');
  await limits.getByLabel('until', { exact: true }).fill('22:01');
  await limits.locator('.outcome').waitFor();
  await look(page, 'limits');
  await limits.getByRole('button', { name: 'Set the limits' }).click();
  await page.getByText('20 documents a second').waitFor();
  await page.getByText('22:00 – 22:01').waitFor();
  const expiry = async () => (await db.collection('log').indexes())[1].storageEngine?.mayfly?.expiry;
  assert.deepEqual(await expiry(), { budget: { documentsPerSecond: 20 }, window: { from: '22:00', to: '22:01' } });
  await page.getByRole('button', { name: 'Limits' }).click();
  await limits.getByLabel('Documents a second').fill('');
  await limits.getByLabel('Removes from').fill('');
  await limits.getByLabel('until', { exact: true }).fill('');
  await limits.getByText('window: null').waitFor();
  await limits.getByRole('button', { name: 'Set the limits' }).click();
  await page.getByText('at any time').waitFor();
  assert.deepEqual(await expiry(), undefined);

  await page.getByRole('button', { name: 'Pause' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Pause' }).click();
  await page.getByText('Paused', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Change' }).click();
  await page.getByRole('textbox', { name: 'After' }).fill('1');
  await page.locator('.outcome').getByText('404 documents').waitFor();
  await page.getByLabel('I have seen').check();
  await page.getByRole('button', { name: 'Change the rule' }).click();
  await page.getByRole('heading', { name: /1 day after/ }).waitFor();
  assert.equal(await db.collection('log').countDocuments(), 500, 'a paused rule removes nothing');
  await page.getByRole('button', { name: 'Resume' }).click();
  const resume = page.getByRole('dialog').getByRole('button', { name: 'Resume' });
  await page.getByLabel('I have seen').check();
  await resume.click();
  await until('documents leave', async () => (await db.collection('log').countDocuments()) < 100);
  await page.getByText('Active').waitFor();

  await page.getByRole('button', { name: 'Stop' }).click();
  await page.getByRole('dialog').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Stop' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Stop' }).click();
  await page.getByText('No rule yet').waitFor();
  assert.equal((await db.collection('log').indexes())[1].expireAfterSeconds, undefined);
  await done(page);
});

test('expiry: who may read is told what it may not', async () => {
  const page = await open();
  await logIn(page, 'reader', '/#/expiry/shop/sessions');
  await page.getByText(/You may not see this|not authorized/).waitFor();
  await done(page);
});

test('data: collections are listed and searched, documents shown with their types and time to live', async () => {
  const page = await open();
  await logIn(page, 'ann', '/#/data');
  await page.getByText(/^3\d\d collections$/).waitFor();
  assert.ok(await page.locator('.rows li').count() < 60, 'what is out of sight is not in the page');
  await look(page, 'collections');
  await compare(page, 'collections');
  await page.evaluate(() => scrollTo(0, document.documentElement.scrollHeight));
  await page.getByRole('link', { name: 'shop.things' }).waitFor();
  // Ten thousand of them are no more in the page. (The server would be a minute making them.)
  const ten = await open();
  await ten.route('**/api/run', async (route) => {
    const { db, command } = route.request().postDataJSON();
    if (!command.listCollections || db !== 'many') return route.continue();
    const names = Array.from({ length: 10_000 }, (_, i) => ({ name: `collection_${i}`, type: 'collection' }));
    return route.fulfill({ json: { cursor: { id: { $numberLong: '0' }, ns: 'many.$cmd.listCollections', firstBatch: names }, ok: 1 } });
  });
  await logIn(ten, 'ann', '/#/data');
  await ten.getByText(/^10,0\d\d collections$/).waitFor();
  assert.ok(await ten.evaluate(() => document.querySelectorAll('*').length) < 600);
  await ten.getByRole('searchbox').fill('many 9999');
  await ten.getByText('1 collection', { exact: true }).waitFor();
  await done(ten);
  await page.getByRole('searchbox').fill('MANY 299');
  await page.getByText('1 collection', { exact: true }).waitFor();
  await page.getByRole('searchbox').fill('thing');
  await page.getByRole('link', { name: 'shop.things' }).click();

  const documents = page.locator('.document');
  await documents.nth(2).waitFor();
  const first = await documents.first().innerText();
  for (const text of ['12.50 decimal', '9007199254740993 long', '"first" string', '/^a.c/i regex', 'true bool', 'null null', 'binData']) assert.ok(first.includes(text), `${text} in ${first}`);
  assert.match(first, /of object 3\s*1 "one" string\s*7 "seven"|of object 3\s*7 "seven" string\s*1 "one"/);
  assert.match(first, /leaves in 1 day,? 1 hrs?|leaves in 1 day 2 hrs?/);
  const before = await documents.nth(2).locator('.leaving').innerText();
  assert.match(before, /^leaves in \d+ mins/, 'the earliest date of an array counts');
  await until('a second', async () => (await documents.nth(2).locator('.leaving').innerText()) !== before);
  assert.equal(await documents.nth(1).locator('.leaving').count(), 0, 'what has no date stays');
  await look(page, 'documents');
  await compare(page, 'documents');

  await page.getByText('Table', { exact: true }).click();
  await page.getByRole('columnheader', { name: 'price' }).waitFor();
  await look(page, 'documents-table');
  await page.getByText('Indexes').click();
  await page.getByRole('cell', { name: 'at_1' }).waitFor();
  await page.getByText('unique').waitFor();
  await look(page, 'indexes');
  await done(page);
});

test('data: queries, plans and edits', async () => {
  const page = await open();
  const asked = [];
  page.on('request', (r) => asked.push(new URL(r.url()).pathname));
  await logIn(page, 'ann');
  assert.ok(!asked.some((a) => a.includes('codemirror')), 'the editor is loaded with the first text');
  await page.goto(`${base}/#/data/shop/${encodeURIComponent(markup)}`);
  // Names of fields are proposed as they are.
  const filter = page.getByRole('textbox', { name: 'Filter' });
  await page.locator('.document').first().waitFor();
  await write(filter, '{ ');
  await filter.press('Control+Space');
  await page.locator('.editor').getByRole('option', { name: '<img' }).waitFor();
  assert.ok(asked.some((a) => a.includes('codemirror')));
  await page.goto(`${base}/#/data/shop/things`);
  const documents = page.locator('.document');
  await documents.nth(2).waitFor();
  await write(filter, "{ name: /^fir/, at: { $gt: ISODate('2020-01-01') } }");
  await page.keyboard.press('Control+Enter');
  await page.getByText(/^1 document ·/).waitFor();
  // What is wrong is marked where it is, in bytes or not.
  await write(filter, "{ name: 'é', at: ]");
  await page.getByText('Not understood: extended JSON at byte 18').waitFor();
  assert.equal(await page.locator('.cm-problem').innerText(), ']');
  assert.equal(await filter.getAttribute('aria-invalid'), 'true');
  await page.getByRole('button', { name: 'Run' }).click();
  await page.getByRole('alert').waitFor();
  // Fields are of documents, operators of the server; the keyboard chooses.
  const proposed = page.locator('.editor').getByRole('option');
  await write(filter, '');
  await filter.pressSequentially('{ "of.de');
  await page.getByRole('option', { name: 'of.deep.er' }).waitFor();
  await page.keyboard.press('Escape');
  await write(filter, '');
  await filter.pressSequentially('{ price: { $g');
  await proposed.first().waitFor();
  assert.deepEqual(await proposed.allInnerTexts(), ['$geoIntersects', '$geoNear', '$geoWithin', '$gt', '$gte']);
  await look(page, 'editor');
  await filter.pressSequentially('t');
  await until('what fits best', async () => (await proposed.first().innerText()) === '$gt');
  await page.keyboard.press('Enter');
  await page.keyboard.type(': 12');
  assert.equal(await filter.innerText(), '{ price: { $gt: 12}}');
  await page.keyboard.press('Control+Enter');
  await page.getByText(/^1 document ·/).waitFor();
  await write(filter, '{ name: "first" }');
  await page.getByRole('button', { name: 'Explain' }).click();
  await page.getByText('IXSCAN').waitFor();
  await look(page, 'explain');
  await page.getByText('Aggregate', { exact: true }).click();
  const pipeline = page.getByRole('textbox', { name: 'Pipeline' });
  await write(pipeline, '');
  for (const [typed, name] of [['[{ $gro', '$group'], [': { _id: "$na', '$name'], ['", n: { $su', '$sum']]) {
    await pipeline.pressSequentially(typed);
    await proposed.filter({ hasText: name }).first().click();
  }
  await write(pipeline, '[{ $group: { _id: null, n: { $sum: 1 } } }]');
  await page.getByRole('button', { name: 'Run' }).click();
  await page.getByText(/^n 3 int$/).waitFor();
  await page.getByText('Find', { exact: true }).click();
  await write(filter, '{}');
  await page.getByRole('button', { name: 'Run' }).click();

  // A value is set with its command shown, unless somebody else was faster.
  await page.getByRole('button', { name: 'Change name: "first"' }).click();
  await write(page.getByLabel('Value'), '"changed"');
  await page.getByText('$set: { name: "changed" }').waitFor();
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('button', { name: 'Change name: "changed"' }).waitFor();
  assert.equal((await db.collection('things').findOne({ _id: 1 })).name, 'changed');
  await page.getByRole('button', { name: 'Change name: "changed"' }).click();
  await db.collection('things').updateOne({ _id: 1 }, { $set: { name: 'another' } });
  await write(page.getByLabel('Value'), 'NumberLong(7)');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Nothing was changed').waitFor();
  await page.keyboard.press('Escape');
  assert.equal((await db.collection('things').findOne({ _id: 1 })).name, 'another');
  await page.getByRole('button', { name: 'Add a document' }).click();
  await write(page.getByLabel('Document', { exact: true }), "{ _id: 'new', at: ISODate('2030-01-01'), name: 'n' }");
  await page.getByRole('button', { name: 'Insert' }).click();
  await page.getByRole('button', { name: 'Delete "new"' }).waitFor();
  assert.ok((await db.collection('things').findOne({ _id: 'new' })).at instanceof Date);
  await page.getByRole('button', { name: 'Delete "new"' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('button', { name: 'Delete "new"' }).waitFor({ state: 'detached' });
  assert.equal(await db.collection('things').countDocuments(), 3);

  // More than a page.
  await page.goto(`${base}/#/data/shop/carts`);
  await page.getByText('First 20 documents').waitFor();
  await page.getByRole('button', { name: 'More' }).click();
  await page.getByText('First 40 documents').waitFor();
  await done(page);
});

test('data: a validator is set once it is known what fails, and documents go to files and come from them', async () => {
  const goods = db.collection('goods');
  const page = await open();
  await logIn(page, 'ann', '/#/data/shop/goods');
  await page.getByText(/^3 documents ·/).waitFor();
  const saved = async (format) => {
    const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: `as ${format}` }).click()]);
    return fs.readFileSync(await download.path(), 'utf8');
  };
  const lines = await saved('JSON');
  assert.deepEqual(lines.trim().split('\n').map((l) => BSON.EJSON.parse(l)), await goods.find().toArray());
  const csv = await saved('CSV');
  assert.match(csv, /^_id,name,at,n,of\r\n1,"a ""quoted"", one",20.*Z,7,\r\n2,[^]*\r\n3,,,,\r\n$/);

  await page.getByText('Validator', { exact: true }).click();
  const validator = page.getByRole('textbox', { name: 'Validator' });
  const set = page.getByRole('button', { name: 'Set the validator' });
  await write(validator, `{ $jsonSchema: { required: ['name'], description: '${markup.replaceAll("'", '')}' } }`);
  assert.ok(await set.isDisabled(), 'what fails has to be known');
  await page.getByRole('button', { name: 'How many would fail?' }).click();
  await page.getByText('1 document that is here would fail').waitFor();
  await page.getByRole('status').getByText('_id 3 int').waitFor();
  await look(page, 'validator');
  await set.click();
  await until('the validator', async () => (await db.listCollections({ name: 'goods' }).toArray())[0].options.validator?.$jsonSchema !== undefined);

  await page.getByText('Documents', { exact: true }).click();
  await page.getByRole('button', { name: 'Import' }).click();
  const form = page.getByRole('dialog');
  await form.getByLabel('Or its text').fill('{"_id": 1}\n{"_id": ]}');
  await form.getByText('extended JSON at byte').waitFor();
  // Names of columns are paths; what would be lost is refused with its line.
  await form.getByLabel('Or its text').fill('name,of.a,of.b\nx,1,2\n');
  await form.getByText('of: { a: 1, b: 2 }').waitFor();
  await form.getByLabel('Or its text').fill('name,of,of.b\nx,1,2\n');
  await form.getByText('CSV, line 1: “of” is no name').waitFor();
  await form.getByLabel('Or its text').fill('name,of\n"two\nlines",\nx,1,2\n');
  await form.getByText('CSV, line 4 has more').waitFor();
  await form.getByLabel('Or its text').fill(JSON.stringify({ _id: 1, of: [{ several: 'lines' }] }, null, 2));
  await form.getByText('1 document will be inserted').waitFor();
  await form.getByLabel('Or its text').fill(`${csv.replace('\r\n1,', '\r\n11,').replace('\r\n2,', '\r\n12,').replace('\r\n3,', '\r\n13,')}`);
  await form.getByText('3 documents will be inserted').waitFor();
  await look(page, 'import');
  await form.getByRole('button', { name: 'Import' }).click();
  await form.getByText('2 of 3 were inserted: Document failed validation').waitFor();
  const { _id, ...one } = await goods.findOne({ _id: 11 });
  assert.deepEqual({ _id: 1, ...one, n: 7 }, { ...(await goods.findOne({ _id: 1 })), n: 7 });
  // What went in is not offered again, and is there when the form is closed.
  assert.equal(await form.getByLabel('Or its text').inputValue(), '{"_id":{"$numberInt":"13"}}\n');
  await form.getByText('1 document will be inserted').waitFor();
  await form.getByRole('button', { name: 'Cancel' }).click();
  await page.getByText(/^5 documents ·/).waitFor();
  await goods.deleteMany({ _id: { $lt: 3 } });
  await page.getByRole('button', { name: 'Import' }).click();
  await form.getByLabel('File').setInputFiles({ name: 'goods.jsonl', mimeType: 'application/json', buffer: Buffer.from(lines.split('\n').slice(0, 2).join('\n')) });
  await form.getByText('2 documents will be inserted').waitFor();
  await form.getByRole('button', { name: 'Import' }).click();
  await form.waitFor({ state: 'detached' });
  await page.getByText(/^5 documents ·/).waitFor();
  await done(page);
});

test('data: who may only read changes nothing', async () => {
  const page = await open();
  await logIn(page, 'reader', '/#/data/shop/things');
  await page.getByRole('button', { name: /^Change at/ }).first().click();
  await write(page.getByLabel('Value'), '1');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('You may not do this').waitFor();
  await done(page);
});

test('operations: what runs is killed after it was confirmed, and the last hour is drawn as it comes', async () => {
  // An operation that lasts: a read that waits for what nobody writes.
  const capped = await db.createCollection('tailed', { capped: true, size: 4096 });
  await capped.insertOne({ text: markup });
  const cursor = capped.find({ text: { $ne: 'x' } }, { tailable: true, awaitData: true, maxAwaitTimeMS: 600_000, comment: markup });
  await cursor.next();
  const waiting = cursor.next().then(() => 'ended', (e) => e.codeName);
  const page = await open(); // on a busy machine a page looks again only after many seconds
  await logIn(page, 'ann', '/#/operations');
  const kill = page.getByRole('row').filter({ hasText: 'getmore shop.tailed' }).getByRole('button', { name: /^Kill operation/ });
  await kill.waitFor();
  for (const chart of ['Operations a second', 'Time of requests', 'Memory', 'Disk', 'Compactions a second', 'Processors and connections']) {
    await page.getByRole('region', { name: chart, exact: true }).locator('canvas').waitFor({ timeout: 10_000 });
  }
  const memory = page.getByRole('region', { name: 'Memory', exact: true });
  assert.match(await memory.getByRole('row', { name: /^Process / }).innerText(), /MB/);
  await look(page, 'operations');
  await compare(page, 'operations');
  // The values at a time are those of the keyboard's, too.
  await memory.locator('.plot').focus();
  await page.keyboard.press('Home');
  await memory.getByRole('columnheader', { name: 'Then' }).waitFor();
  // It is live: the time of the newest sample moves on.
  await memory.locator('.plot').blur();
  await memory.getByRole('columnheader', { name: 'Now' }).waitFor();
  const newest = await memory.locator('.card-head .num').innerText();
  await until('a sample', async () => (await memory.locator('.card-head .num').innerText()) !== newest);
  // A page that nobody sees has no connection open: a browser has six to a server, for all its tabs.
  const show = (state) => page.evaluate((s) => {
    Object.defineProperty(document, 'visibilityState', { configurable: true, get: () => s });
    document.dispatchEvent(new Event('visibilitychange'));
  }, state);
  const ended = page.waitForEvent('requestfailed', (r) => r.url().endsWith('/api/live'));
  await show('hidden');
  await ended;
  const begun = page.waitForRequest((r) => r.url().endsWith('/api/live'));
  await show('visible');
  await begun;
  const before = await memory.locator('.card-head .num').innerText();
  await until('a further sample', async () => (await memory.locator('.card-head .num').innerText()) !== before);
  await kill.click();
  await page.getByText('killOp: 1').waitFor();
  await look(page, 'kill');
  await page.getByRole('dialog').getByRole('button', { name: 'Kill' }).click();
  assert.equal(await waiting, 'Interrupted');
  await page.getByText('Nothing runs at the moment').waitFor();
  await cursor.close();
  await done(page);
});

test('operations: who may not see the server sees what is its own', async () => {
  const page = await open();
  await logIn(page, 'reader', '/#/operations');
  await page.getByText('You see your own operations only').waitFor();
  await page.getByText('You may not see this').waitFor();
  assert.equal(await page.locator('canvas').count(), 0);
  await page.context().close();
});

test('health: what is wrong, and what to do, with the rights of who asks', async () => {
  const page = await open();
  await logIn(page, 'ann', '/#/health');
  // The collection whose names are markup has a rule that nothing comes due by.
  const held = page.getByRole('listitem').filter({ hasText: 'A rule removes nothing' }).first();
  await held.waitFor();
  assert.ok((await held.innerText()).includes(markup), 'names are shown as they are');
  assert.equal(await page.getByText('Not looked at').count(), 0);
  await look(page, 'health');
  await compare(page, 'health');
  await db.command({ collMod: 'sessions', index: { name: 'at_1', storageEngine: { mayfly: { expiry: { paused: true } } } } });
  await page.getByRole('button', { name: 'Look again' }).click();
  const paused = page.getByRole('listitem').filter({ hasText: 'shop.sessions' });
  await paused.getByText('The rule removes nothing: paused').waitFor();
  await paused.getByRole('button', { name: 'Copy' }).click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), 'db.getSiblingDB("shop").runCommand({collMod: "sessions", index: {name: "at_1", storageEngine: {mayfly: {expiry: {paused: false}}}}})');
  await db.command({ collMod: 'sessions', index: { name: 'at_1', storageEngine: { mayfly: { expiry: { paused: false } } } } });
  await page.getByRole('button', { name: 'Look again' }).click();
  await paused.waitFor({ state: 'detached' });
  await done(page);
});

test('health: who may not ask is told which roles it lacks', async () => {
  const page = await open();
  await logIn(page, 'reader', '/#/health');
  await page.getByText('Give the user what it lacks of roles').first().waitFor();
  await done(page);
});

test('access: users and roles, who is connected, logins, and a user that is made and dropped', async () => {
  await client.db('admin').command({ createRole: markup, privileges: [], roles: [{ role: 'read', db: 'shop' }] });
  await client.db('admin').command({ createUser: markup, pwd: 'secret', roles: [{ role: markup, db: 'admin' }] });
  const page = await open();
  await logIn(page, 'ann', '/#/access');
  const users = page.getByRole('region', { name: 'Users' });
  assert.match(await users.getByRole('row').filter({ hasText: 'reader' }).innerText(), /read@shop/);
  await page.getByRole('region', { name: 'Roles of your own making' }).getByText('read@shop').waitFor();
  await page.getByRole('region', { name: 'Who is connected' }).getByText(/nodejs \d/).first().waitFor();
  await page.getByRole('region', { name: 'Logins lately' }).getByText('ann@admin').first().waitFor();
  await look(page, 'access');
  await compare(page, 'access');
  await page.getByRole('button', { name: 'New user' }).click();
  const form = page.getByRole('dialog');
  await form.getByRole('textbox', { name: 'User' }).fill('new');
  await form.getByLabel('Password').fill('a secret of its own');
  await form.getByRole('combobox').selectOption('readWrite');
  await form.getByRole('textbox', { name: 'Role on' }).fill('shop');
  const shown = await form.locator('pre').innerText();
  assert.ok(shown.includes('pwd: passwordPrompt()') && !shown.includes('a secret'), shown);
  await look(page, 'new-user');
  await form.getByRole('button', { name: 'Create the user' }).click();
  await users.getByRole('row').filter({ hasText: 'readWrite@shop' }).waitFor();
  // With its user, a session ends: the page asks for another login.
  const other = await open();
  await signIn(other, `${base}/#/access`, 'new', 'a secret of its own');
  await page.getByRole('button', { name: 'Drop new' }).click();
  await page.getByRole('dialog').getByText('dropUser: "new"').waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Drop' }).click();
  await users.getByRole('row').filter({ hasText: 'readWrite@shop' }).waitFor({ state: 'detached' });
  assert.deepEqual((await client.db('admin').command({ usersInfo: 'new' })).users, []);
  await other.getByRole('link', { name: 'Data' }).click();
  await other.getByRole('button', { name: 'Log in' }).waitFor();
  await other.context().close();
  await done(page);
});

test('access: who may not see users is told so', async () => {
  const page = await open();
  await logIn(page, 'reader', '/#/access');
  await page.getByText('You may not see this').first().waitFor();
  assert.equal(await page.getByRole('button', { name: 'New user' }).count(), 0);
  await page.context().close();
});

test('streams: a server that stands alone has none', async () => {
  const page = await open();
  await logIn(page, 'ann', '/#/streams');
  await page.getByText('Nobody follows changes').waitFor();
  await page.getByRole('button', { name: 'Follow' }).click();
  await page.getByRole('alert').getByText('only supported on replica sets').waitFor();
  await page.context().close();
});
