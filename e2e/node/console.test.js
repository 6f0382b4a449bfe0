// The console in a real browser (Debian's Chromium), against a server of its own.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import axe from 'axe-core';
import { MongoClient } from 'mongodb';
import { chromium } from 'playwright-core';
import { freePort, Process } from './process.js';
import { until } from './until.js';

// Where to leave pictures of the pages, for people to look at.
const pictures = process.env.MAYFLY_PICTURES;
const markup = '<img src=x onerror="window.broken=1"><script>window.broken=1</script>';
const hour = 3600_000;

let server, browser, client, db, base, dir;

before(async () => {
  dir = fs.mkdtempSync(path.join(os.tmpdir(), 'console-'));
  const [port, consolePort] = [await freePort(), await freePort()];
  server = new Process(port, [
    'serve', '--auth', '--dbpath', dir, '--console', '--consolePort', consolePort, '--setParameter', 'ttlMonitorSleepSecs=1', '--setParameter', 'ttlMonitorEnabled=true',
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
  browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });
});

after(async () => {
  await browser?.close();
  await client?.close();
  await server?.end('SIGTERM');
  fs.rmSync(dir, { recursive: true });
});

// A page of its own browser, whose errors fail the test.
async function open(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, locale: 'en-GB', permissions: ['clipboard-read', 'clipboard-write'], ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(5000);
  page.errors = [];
  page.on('pageerror', (e) => page.errors.push(String(e)));
  page.on('console', (m) => m.type() === 'error' && !/status of 401/.test(m.text()) && page.errors.push(m.text()));
  return page;
}

async function logIn(page, user = 'ann', hash = '') {
  await page.goto(base + hash);
  await page.getByLabel('User').fill(user);
  await page.getByLabel('Password').fill('secret');
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByRole('heading', { level: 1 }).waitFor();
}

// What axe finds wrong, in both themes and at both widths; and a picture of each.
async function look(page, name) {
  await page.evaluate(axe.source);
  for (const [width, theme] of [[1280, 'light'], [1280, 'dark'], [360, 'light'], [360, 'dark']]) {
    await page.setViewportSize({ width, height: 900 });
    await page.emulateMedia({ colorScheme: theme, reducedMotion: 'reduce' });
    const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
    assert.deepEqual(violations.map((v) => [v.id, v.nodes.map((n) => n.html.slice(0, 200))]), [], `${name}, ${theme}, ${width}`);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${name} is wider than ${width}`);
    if (pictures) await page.screenshot({ path: path.join(pictures, `${name}-${theme}-${width}.png`), fullPage: true });
  }
  await page.setViewportSize({ width: 1280, height: 900 });
  await page.emulateMedia({ colorScheme: 'light' });
}

async function done(page) {
  assert.equal(await page.evaluate(() => globalThis.broken), undefined, 'markup of data was run');
  assert.deepEqual(page.errors, []);
  await page.context().close();
}

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
  await page.getByRole('button', { name: 'New rule' }).click();
  await page.getByLabel('Database').fill('shop');
  await page.getByLabel('Collection').fill('log');
  await page.getByLabel('Field with the date').fill('at');
  await page.getByRole('button', { name: 'Log in' }).waitFor(); // the session is gone
  await done(page);
});

test('expiry: rules of all collections, and of one', async () => {
  const page = await open();
  await logIn(page);
  await page.getByRole('link', { name: 'shop.sessions' }).waitFor();
  assert.equal(await page.locator('tbody tr').filter({ has: page.locator('a') }).count(), 3);
  await look(page, 'expiry');
  await page.getByText('As a table').click();
  assert.ok(await page.locator('.chart details tbody tr').count() === 25);
  await page.getByText('30 days').click();
  assert.ok(await page.locator('.chart details tbody tr').count() === 31);
  await page.locator('.chart svg').focus();
  await page.keyboard.press('ArrowRight');
  await page.getByText(/^Due now: \d+ documents?$/).waitFor();
  await page.getByRole('link', { name: 'shop.sessions' }).click();
  await page.getByRole('heading', { name: 'At the date in “at”' }).waitFor();
  await look(page, 'rule');
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

  await page.getByRole('button', { name: 'Pause' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Pause' }).click();
  await page.getByText('Paused').waitFor();
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
