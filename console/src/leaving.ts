// When a document leaves, by the rules of its collection, as the server reckons it.
import { signal } from '@preact/signals';
import type { Collection } from './collections';
import { Doc, plain, Typed, type Value } from './ejson';

/** The time, by the second, for what counts down. */
export const now = signal(Date.now());
setInterval(() => document.visibilityState === 'visible' && (now.value = Date.now()), 1000);

/** The instant at which a document is due, in milliseconds; undefined for never. What a partial index has is not known here. */
export function leaves(doc: Doc, c: Collection): number | undefined {
  const all: number[] = [];
  for (const ix of c.indexes) {
    if (ix.expireAfterSeconds === undefined || ix.partial) continue;
    const at = ix.byLastWrite ? afterWrite(doc, ix.expireAfterSeconds) : afterDate(doc, Object.keys(ix.key)[0]!, ix.expireAfterSeconds);
    if (at !== undefined) all.push(at);
  }
  const own = c.options.expireAfterSeconds;
  if (typeof own === 'number' && c.type === 'collection') {
    const at = afterDate(doc, '_id', own);
    if (at !== undefined) all.push(at);
  }
  return all.length ? Math.min(...all) : undefined;
}

/** The earliest date in a field counts. */
function afterDate(doc: Doc, path: string, seconds: number): number | undefined {
  const dates = at(doc, path.split('.')).flatMap((v) => (Array.isArray(v) ? v : [v])).filter((v): v is Typed => v instanceof Typed && v.type === 'date');
  const first = Math.min(...dates.map((v) => (plain(v) as Date).getTime()));
  return Number.isFinite(first) ? first + seconds * 1000 : undefined;
}

function at(v: Value | undefined, path: string[]): Value[] {
  if (v === undefined) return [];
  if (path.length === 0) return [v];
  if (Array.isArray(v)) return v.flatMap((x) => (x instanceof Doc ? at(x, path) : []));
  return v instanceof Doc ? at(v.get(path[0]!), path.slice(1)) : [];
}

/** A document's own ttl counts where it is a whole number, -1 or from 1 on; else the default, where it is one. */
function afterWrite(doc: Doc, seconds: number): number | undefined {
  const written = plain(doc.get('_ts'));
  const own = plain(doc.get('ttl'));
  if (typeof written !== 'number') return undefined;
  const valid = typeof own === 'number' && Number.isInteger(own) && (own === -1 || (own >= 1 && own <= 2147483647));
  const ttl = valid ? own : seconds;
  return ttl < 0 ? undefined : (written + ttl) * 1000;
}
