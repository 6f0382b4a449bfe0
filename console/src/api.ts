// The calls of the server's API (docs/rfcs/0033-console.md).
import { signal } from '@preact/signals';
import type { Operators } from './completion';
import { Doc, json, parse, plain, Raw, type Sent } from './ejson';

/** Who one is, and what server this is. */
export interface Session {
  version: string;
  accessControl: boolean;
  user?: { user: string; db: string };
}

/** The session; null without one, undefined until the server has said. */
export const session = signal<Session | null | undefined>(undefined);
export const accessControl = signal(true);

/** An error that the server has answered. */
export class CommandError extends Error {
  /** at is the byte of a text that could not be read. */
  constructor(readonly status: number, readonly code: number, readonly codeName: string, message: string, readonly at?: number) {
    super(message);
  }
}

// The page's secret. localStorage is bound to the origin with its port, as the cookie is not.
const tokenKey = 'mayfly-csrf';

async function call(path: string, body: string | undefined, passive = false): Promise<[Doc, string]> {
  const headers: Record<string, string> = { 'X-Mayfly-Csrf': localStorage.getItem(tokenKey) ?? '' };
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  if (passive) headers['X-Mayfly-Passive'] = '1';
  const answer = await fetch(path, { method: body === undefined ? 'GET' : 'POST', headers, body });
  const text = await answer.text();
  if (!answer.headers.get('Content-Type')?.startsWith('application/json')) throw new CommandError(answer.status, 0, '', text || answer.statusText);
  const reply = parse(text) as Doc;
  if (answer.status === 401 && path !== '/api/login') session.value = null;
  const { ok, code = 0, codeName = '', errmsg = '', at } = plain(reply);
  if (!answer.ok || ok === 0) throw new CommandError(answer.status, code, codeName, errmsg, at);
  return [reply, text];
}

/** Asks whether there is a session. Without access control there is one for the asking. */
export async function resume(): Promise<void> {
  const [reply] = await call('/api/session', undefined);
  const now = plain(reply);
  accessControl.value = now.accessControl;
  if (now.version) session.value = now;
  else if (!now.accessControl) await login({});
  else session.value = null;
}

/** Begins a session. */
export async function login(who: { user?: string; password?: string; db?: string }): Promise<void> {
  const [reply] = await call('/api/login', json(who));
  const { csrf, ...now } = plain(reply);
  localStorage.setItem(tokenKey, csrf);
  session.value = now;
}

/** Ends the session. */
export async function logout(): Promise<void> {
  await call('/api/logout', '').catch(() => undefined);
  localStorage.removeItem(tokenKey);
  session.value = null;
}

/** Runs a command; passive says that no person has asked for it. */
export async function run(db: string, command: Sent, passive = false): Promise<Doc> {
  const [reply] = await call('/api/run', json({ db, command }), passive);
  return reply;
}

/** run, for replies whose types do not matter. */
export const ask = async (db: string, command: Sent, passive = false) => plain(await run(db, command, passive));

/** What mayfly doctor says. */
export const examine = async () => plain((await call('/api/health', '{}'))[0]);

/** The server-sent events of an address, until signal aborts: those that came together, by name. */
async function stream(path: string, signal: AbortSignal, take: (events: [string, string][]) => void): Promise<void> {
  const answer = await fetch(path, { headers: { 'X-Mayfly-Csrf': localStorage.getItem(tokenKey) ?? '', 'X-Mayfly-Passive': '1' }, signal });
  if (!answer.headers.get('Content-Type')?.startsWith('text/event-stream')) {
    const { code = 0, codeName = '', errmsg = '' } = plain(parse(await answer.text()));
    if (answer.status === 401) session.value = null;
    throw new CommandError(answer.status, code, codeName, errmsg);
  }
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    let events = (rest + value).split('\n\n');
    rest = events.pop()!;
    events = events.filter((e) => e[0] !== ':'); // a comment: the server looks whether we are here
    if (events.length) take(events.map((e) => e.split('\n').map((l) => l.slice(l.indexOf(': ') + 2)) as [string, string]));
  }
}

/** What the server has sampled of its metrics, until signal aborts: the names of the series, then samples, of an hour and as they are taken. */
export const live = (signal: AbortSignal, series: (names: string[]) => void, samples: (more: Sample[]) => void) =>
  stream('/api/live', signal, (events) => {
    const more: Sample[] = [];
    for (const [name, data] of events) {
      const d = JSON.parse(data);
      if (name === 'series') series(d.series);
      else more.push({ at: Date.parse(d.at.$date) / 1000, values: d.values });
    }
    if (more.length) samples(more);
  });

/** A change, and how long its text is. */
export interface Change {
  event: Doc;
  size: number;
}

/** Changes as they happen, until signal aborts: of a collection, of a database without coll, of all without db. ended is why there are no more. */
export const tail = (signal: AbortSignal, db: string, coll: string, opened: () => void, changes: (events: Change[], ended?: string) => void) =>
  stream(`/api/tail?${new URLSearchParams({ db, coll })}`, signal, (events) => {
    const more: Change[] = [];
    let ended: string | undefined;
    for (const [name, data] of events) {
      if (name === 'open') opened();
      else if (name === 'end') ended = plain(parse(data)).errmsg ?? 'invalidate';
      else more.push({ event: parse(data) as Doc, size: data.length });
    }
    changes(more, ended);
  });

/** What the series were at a time, in seconds. */
export interface Sample {
  at: number;
  values: (number | null)[];
}

/** What a person typed, as the server reads it. */
export async function read(text: string): Promise<Raw> {
  const [, reply] = await call('/api/parse', json({ text }));
  return new Raw(reply.slice('{"value":'.length, -1));
}

let known: Promise<Operators> | undefined;

/** What a query can have. It is asked for once. */
export const operators = (): Promise<Operators> =>
  (known ??= call('/api/operators', undefined, true).then(
    ([reply]) => plain(reply),
    (e) => {
      known = undefined;
      throw e;
    },
  ));

/** Whether a command may not be run, as opposed to all that can be wrong with it. */
export const isRefused = (e: unknown) => e instanceof CommandError && e.code === 13;
