// Rules of expiry: how they are found, read and changed (docs/operate/expiry.md).
import { ask } from './api';
import type { Sent } from './ejson';
import { span, t } from './i18n';
import type { Bar } from './ui/chart';

/** A rule, as $expiryStats tells of it. */
export interface Rule {
  db: string;
  coll: string;
  name: string;
  kind: 'date' | '_id' | 'lastWrite';
  /** The field with the date. */
  field: string;
  seconds: number;
  paused: boolean;
  immediate: boolean;
  skipped: string[];
  note?: string;
  forecast: Forecast;
  lag: number;
  rate: number;
  removed: number;
  lastPass?: Date;
  /** Whether it is the collection's own expireAfterSeconds, and not an index's. */
  own: boolean;
}

/** How far a forecast looks, and in which steps. */
export type Horizon = 'minutes' | 'hours' | 'days';

/** The width of a bar in milliseconds, and how many there are. */
const steps: Record<Horizon, [width: number, count: number]> = { minutes: [60_000, 60], hours: [3_600_000, 24], days: [86_400_000, 30] };
export const horizons = Object.keys(steps) as Horizon[];

const ofEach = <T>(make: (h: Horizon) => T) => Object.fromEntries(horizons.map((h) => [h, make(h)])) as Record<Horizon, T>;

export interface Forecast {
  due: number;
  dueBytes?: number;
  oldest?: Date;
  next?: Date;
  bars: Record<Horizon, Bar[]>;
  /** What comes due after the last bar. */
  later: Record<Horizon, number>;
  never?: number;
}

/** All bars from now on, of the ones that have documents. */
function spread(given: { from: Date; documents: number }[], now: number, h: Horizon): Bar[] {
  const [width, count] = steps[h];
  const bars = Array.from({ length: count }, (_, i) => ({ from: new Date(now + i * width), to: new Date(now + (i + 1) * width), n: 0 }));
  for (const g of given) {
    const bar = bars[Math.min(count - 1, Math.max(0, Math.round((g.from.getTime() - now) / width)))];
    if (bar) bar.n += g.documents;
  }
  return bars;
}

const sum = (all: { n: number }[]) => all.reduce((n, b) => n + b.n, 0);

// eslint-disable-next-line -- a document of $expiryStats, or of a dry run's array expiry
export function forecastOf(d: any, now: number): Forecast {
  const { later = { documents: 0 }, ...histogram } = d.histogram ?? {};
  const bars = ofEach((h) => spread(histogram[h] ?? [], now, h));
  const all = later.documents + sum(bars.days);
  return {
    bars, due: d.dueNow?.documents ?? 0, dueBytes: d.dueNow?.bytes, oldest: d.oldestDue ?? undefined, next: d.nextDue ?? undefined,
    later: ofEach((h) => Math.max(0, all - sum(bars[h]))), never: d.never?.documents,
  };
}

/** What several forecasts come to together. */
export function together(all: Forecast[], now: number): Forecast {
  const earliest = (of: (f: Forecast) => Date | undefined) => all.map(of).filter((d) => d !== undefined).sort((a, b) => a.getTime() - b.getTime())[0];
  return {
    due: all.reduce((n, f) => n + f.due, 0), oldest: earliest((f) => f.oldest), next: earliest((f) => f.next),
    bars: ofEach((h) => spread(all.flatMap((f) => f.bars[h].map((b) => ({ from: b.from, documents: b.n }))), now, h)),
    later: ofEach((h) => all.reduce((n, f) => n + f.later[h], 0)),
  };
}

/** The rules of a collection. */
export async function rulesOf(db: string, coll: string, passive: boolean): Promise<Rule[]> {
  const reply = await ask(db, { aggregate: coll, pipeline: [{ $expiryStats: {} }], cursor: {} }, passive);
  const now = Date.now();
  // eslint-disable-next-line -- see above
  return reply.cursor.firstBatch.map((d: any): Rule => ({
    db, coll, name: d.rule, kind: d.kind ?? 'date', field: Object.keys(d.key ?? { _id: 1 })[0] ?? '', seconds: d.expireAfterSeconds, paused: d.paused ?? false,
    immediate: d.visibility === 'immediate', skipped: (d.skipped ?? []).filter((s: string) => s !== 'paused'), note: d.note, forecast: forecastOf(d, now), lag: d.lagSeconds ?? 0,
    rate: d.removedPerSecond ?? 0, removed: d.removed?.documents ?? 0, lastPass: d.lastPass?.at, own: d.kind === '_id' || d.rule === 'expireAfterSeconds',
  }));
}

/** How many collections a search for rules looks at. */
export const searched = 500;
const atATime = 6;

/** The collections that have rules, and whether there may be more. */
export async function withRules(passive: boolean): Promise<{ all: [string, string][]; more: boolean }> {
  const { databases } = await ask('admin', { listDatabases: 1, nameOnly: true, authorizedDatabases: true }, passive);
  const found: [string, string, boolean][] = [];
  let more = false;
  for (const { name: db } of databases) {
    if (db === 'admin' || db === 'config' || db === 'local') continue;
    const { cursor } = await ask(db, { listCollections: 1, filter: { type: { $ne: 'view' }, name: { $not: { $regex: '^system\\.' } } }, authorizedCollections: true, cursor: { batchSize: searched } }, passive);
    more ||= cursor.id !== 0;
    for (const c of cursor.firstBatch) found.push([db, c.name, c.options?.expireAfterSeconds !== undefined]);
  }
  more ||= found.length > searched;
  const all: [string, string][] = [];
  const left = found.slice(0, searched);
  await Promise.all(Array.from({ length: atATime }, async () => {
    for (let next = left.shift(); next; next = left.shift()) {
      const [db, coll, own] = next;
      if (own || (await hasTTL(db, coll, passive))) all.push([db, coll]);
    }
  }));
  return { all: all.sort(), more };
}

async function hasTTL(db: string, coll: string, passive: boolean): Promise<boolean> {
  try {
    const { cursor } = await ask(db, { listIndexes: coll, cursor: {} }, passive);
    // eslint-disable-next-line -- an index
    return cursor.firstBatch.some((ix: any) => ix.expireAfterSeconds !== undefined);
  } catch {
    return false; // it was dropped meanwhile, or one may not
  }
}

/** What a rule says, as a sentence. */
export function says(r: Pick<Rule, 'kind' | 'field' | 'seconds'>): string {
  if (r.kind === 'lastWrite') return r.seconds < 0 ? t('byWriteOwn') : t('byWrite', { span: span(r.seconds) });
  if (r.kind === '_id') return t('byId', { span: span(r.seconds) });
  return r.seconds === 0 ? t('byDateAt', { field: r.field }) : t('byDate', { field: r.field, span: span(r.seconds) });
}

type Expiry = { [name: string]: Sent };
const engine = (expiry: Expiry) => (Object.keys(expiry).length ? { mayfly: { expiry } } : undefined);

/** The command that makes a rule. */
export function making(coll: string, kind: 'date' | 'lastWrite', field: string, seconds: number, dryRun = false): Sent {
  const of = kind === 'lastWrite' ? '_ts' : field;
  const expiry: Expiry = { ...(kind === 'lastWrite' && { by: 'lastWrite' }), ...(dryRun && { dryRun }) };
  return { createIndexes: coll, indexes: [{ key: { [of]: 1 }, name: `${of}_1`, expireAfterSeconds: seconds, storageEngine: engine(expiry) }] };
}

/** What holds a rule back, and where what it removes is written before. */
export interface Limits {
  visibility?: 'immediate' | 'deferred';
  budget?: { documentsPerSecond?: number | null; bytesPerSecond?: number | null };
  window?: { from: string; to: string; timeZone?: string | null } | null;
  archive?: { to: string };
}

/** The limits of a rule, as they were given. */
export async function limitsOf(r: Rule): Promise<Limits> {
  const { cursor } = await ask(r.db, r.own ? { listCollections: 1, filter: { name: r.coll }, cursor: {} } : { listIndexes: r.coll, cursor: {} }, true);
  // eslint-disable-next-line -- a collection, or an index
  const found = r.own ? cursor.firstBatch[0]?.options : cursor.firstBatch.find((ix: any) => ix.name === r.name);
  return found?.storageEngine?.mayfly?.expiry ?? {};
}

/** What a rule has archived. */
export interface Archived {
  objects: number;
  documents: number;
  bytes: number;
  last?: Date;
}

export async function archivedBy(r: Rule): Promise<Archived> {
  const pipeline = [{ $match: { ns: `${r.db}.${r.coll}`, rule: r.name, writing: { $exists: false } } }, { $group: { _id: null, objects: { $sum: 1 }, documents: { $sum: '$rows' }, bytes: { $sum: '$bytes' }, last: { $max: '$gone' } } }];
  const { cursor } = await ask(r.db, { aggregate: 'system.archive', pipeline, cursor: {} }, true);
  return cursor.firstBatch[0] ?? { objects: 0, documents: 0, bytes: 0 };
}

/** The command that changes a rule: its time ("off" stops it), whether it is paused, its limits. */
export function changing(r: Rule, to: { seconds?: number | 'off'; paused?: boolean; limits?: Limits }, dryRun = false): Sent {
  const expiry: Expiry = { ...(to.paused !== undefined && { paused: to.paused }), ...(to.limits as Expiry | undefined), ...(dryRun && { dryRun }) };
  const what = { expireAfterSeconds: to.seconds, storageEngine: engine(expiry) };
  return r.own ? { collMod: r.coll, ...what } : { collMod: r.coll, index: { name: r.name, ...what } };
}

/** What a command of a rule would do. */
export async function dryRun(db: string, command: Sent): Promise<{ forecast: Forecast; note?: string }> {
  const reply = await ask(db, command);
  return { forecast: forecastOf(reply.expiry[0] ?? {}, Date.now()), note: reply.note };
}
