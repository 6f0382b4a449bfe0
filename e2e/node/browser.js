// The console's pages in a real browser (Debian's Chromium).
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import axe from 'axe-core';
import { chromium } from 'playwright-core';
import { Pictures } from './pictures.js';

// Where to leave pictures of the pages, for people to look at.
const pictures = process.env.MAYFLY_PICTURES;

// What data has that must not be run.
export const markup = '<img src=x onerror="window.broken=1"><script>window.broken=1</script>';

export class Browser {
  static async launch() {
    const browser = new Browser();
    browser.chromium = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });
    return browser;
  }

  close() { return this.chromium.close(); }

  // A page of its own browser, whose errors fail the test.
  async open(options = {}) {
    const context = await this.chromium.newContext({ viewport: { width: 1280, height: 900 }, locale: 'en-GB', permissions: ['clipboard-read', 'clipboard-write'], ...options });
    const page = await context.newPage();
    page.setDefaultTimeout(10_000);
    page.errors = [];
    page.on('pageerror', (e) => page.errors.push(String(e)));
    page.on('console', (m) => m.type() === 'error' && !/status of 401/.test(m.text()) && page.errors.push(m.text()));
    return page;
  }
}

export async function logIn(page, address, user, password = 'secret') {
  await page.goto(address);
  await page.getByLabel('User').fill(user);
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByRole('heading', { level: 1 }).waitFor();
}

// Puts a text into an editor. (Locator.fill has the browser copy styles, which the policy forbids.)
export async function write(editor, text) {
  await editor.press('Control+a');
  await editor.press('Delete');
  await editor.page().keyboard.insertText(text);
}

// What axe finds wrong, in both themes and at two widths; and pictures. At 2,560 pixels nothing but the layout is
// another one. (Preloading styles, axe would have inline ones in trees of their own, which the policy forbids.)
export async function look(page, name) {
  await page.evaluate(axe.source);
  for (const [width, theme] of [[1440, 'light'], [360, 'dark'], ...(pictures ? [[1440, 'dark'], [360, 'light'], [2560, 'light'], [2560, 'dark']] : [])]) {
    await show(page, width, theme);
    const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'], preload: false }));
    assert.deepEqual(violations.map((v) => [v.id, v.nodes.map((n) => n.html.slice(0, 200))]), [], `${name}, ${theme}, ${width}`);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${name} is wider than ${width}`);
    if (pictures) await page.screenshot({ path: path.join(pictures, `${name}-${theme}-${width}.png`), fullPage: name !== 'collections' });
  }
  await show(page, 1280, 'light');
}

async function show(page, width, theme) {
  await page.setViewportSize({ width, height: width === 360 ? 780 : 900 });
  await page.emulateMedia({ colorScheme: theme, reducedMotion: 'reduce' });
}

// Compares a page with its pictures in docs, so that one that is broken is found; texts and charts may differ.
// With MAYFLY_REWRITE the pictures are made anew: look at them. Dark and wide is only made: another width changes
// no colours, and another theme no layout.
export async function compare(page, name) {
  const pictures = await Pictures.open(page.context().browser());
  const unlike = async (width, theme, anew) => {
    await show(page, width, theme);
    const file = path.join(kept, `${name}-${theme}-${width}.png`);
    const now = await page.screenshot();
    if (anew) fs.writeFileSync(file, await pictures.small(now));
    return pictures.difference(fs.readFileSync(file), now);
  };
  const rewrite = process.env.MAYFLY_REWRITE;
  for (const [width, theme] of [[1440, 'light'], [360, 'light'], [360, 'dark'], ...(rewrite ? [[1440, 'dark']] : [])]) {
    const part = await unlike(width, theme, rewrite);
    if (part > tolerance) await page.screenshot({ path: path.join(os.tmpdir(), `${name}-${theme}-${width}.png`) });
    assert.ok(part <= tolerance, `${name}, ${theme}, ${width}: ${part} of the picture is another one, see ${os.tmpdir()}`);
  }
  // Without its styles it is.
  const styled = (is) => page.evaluate((on) => (document.styleSheets[0].disabled = !on), is);
  await styled(false);
  const part = await unlike(1440, 'light', false);
  assert.ok(part > tolerance, `${name}: without styles ${part} of the picture is another one`);
  await styled(true);
  await pictures.close();
  await show(page, 1280, 'light');
}

const kept = new URL('../../docs/operate/console/', import.meta.url).pathname;

// How much of a picture may be another one: a chart, a table that is longer.
const tolerance = 0.1;

// Ends a page: nothing went wrong in it.
export async function done(page) {
  assert.equal(await page.evaluate(() => globalThis.broken), undefined, 'markup of data was run');
  assert.deepEqual(page.errors, []);
  await page.context().close();
}
