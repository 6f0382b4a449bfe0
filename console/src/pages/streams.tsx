// Who follows the changes, how far back, and the changes as they happen.
import { useEffect, useState } from 'preact/hooks';
import { ask, isRefused, tail, type Change } from '../api';
import { Doc, plain, shell, type Value } from '../ejson';
import { number, span, t, time } from '../i18n';
import { Failure, Field, Figure, seldom, useAnswer, visible } from '../ui/parts';
import { Table } from '../ui/table';
import { Tree } from '../ui/tree';

export const Streams = () => (
  <>
    <div class="head">
      <div>
        <h1>{t('streamsTitle')}</h1>
        <p>{t('streamsLead')}</p>
      </div>
    </div>
    <Open />
    <Live />
  </>
);

interface Stream {
  ns: string;
  began?: Date;
  read?: Date;
  events: number;
  client: string;
}

interface All {
  streams: Stream[];
  /** Of the member; a router has none. */
  sums?: { open: number; lost: number; oldest?: Date; behind: number; reaches?: Date };
}

/** The time of a timestamp, as plain gives it: "seconds, number". */
const timeOf = (v: unknown) => (typeof v === 'string' && Number.parseInt(v, 10) > 0 ? new Date(Number.parseInt(v, 10) * 1000) : undefined);

// eslint-disable-next-line -- an operation or a cursor as $currentOp shows it
const isStream = (o: any) => o.cursor?.originatingCommand?.pipeline?.[0]?.$changeStream !== undefined;

async function open(passive: boolean): Promise<All> {
  const list = (allUsers: boolean) => ask('admin', { aggregate: 1, pipeline: [{ $currentOp: { allUsers, idleCursors: true, localOps: true } }, { $match: { 'cursor.originatingCommand.pipeline.0.$changeStream': { $exists: true } } }], cursor: { batchSize: 10_000 } }, passive);
  const [found, status] = await Promise.all([
    list(true).catch((e) => (isRefused(e) ? list(false) : Promise.reject(e))),
    ask('admin', { serverStatus: 1, mayfly: 0, repl: 0 }, passive).catch((e) => (isRefused(e) ? {} : Promise.reject(e))),
  ]);
  const m = status.metrics?.changeStreams;
  return {
    sums: m?.open === undefined ? undefined : { open: m.open, lost: m.lost, oldest: timeOf(m.oldestPosition), behind: m.behindSecs ?? 0, reaches: timeOf(m.oldestResumable) },
    // eslint-disable-next-line -- see above
    streams: found.cursor.firstBatch.filter(isStream).map((o: any): Stream => ({
      ns: o.cursor.originatingCommand.pipeline[0].$changeStream.allChangesForCluster ? '' : (o.ns ?? ''), began: o.cursor.createdDate, read: o.type === 'idleCursor' ? o.cursor.lastAccessDate : undefined,
      events: o.cursor.nDocsReturned ?? 0, client: [o.client, o.appName].filter(Boolean).join(' · '),
    })),
  };
}

function Open() {
  const found = useAnswer(open, [], seldom);
  const { sums, streams = [] } = found.value ?? {};
  return (
    <section class="card">
      <div class="card-head"><h2>{t('openStreams')}</h2></div>
      {found.error !== undefined && <Failure error={found.error} again={found.again} />}
      {sums && (
        <dl class="figures">
          <Figure name={t('openStreams')} value={number(sums.open)} />
          <Figure name={t('oldestPosition')} value={sums.oldest ? time(sums.oldest, { timeStyle: 'medium' }) : '–'} hint={sums.oldest && t('behindNewest', { span: span(sums.behind) })} />
          <Figure name={t('reachesBack')} value={sums.reaches ? time(sums.reaches, { timeStyle: 'medium' }) : '–'} hint={sums.reaches && time(sums.reaches, { dateStyle: 'medium' })} />
          <Figure name={t('lostStreams')} value={number(sums.lost)} hint={t('lostHint')} due={sums.lost > 0} />
        </dl>
      )}
      {found.value && streams.length === 0 && <p class="empty">{t('noStreams')}</p>}
      {streams.length > 0 && (
        <Table
          label={t('openStreams')} rows={streams}
          columns={[
            [t('watches'), (s) => <span class={s.ns ? 'mono' : ''}>{s.ns || t('allData')}</span>],
            [t('client'), (s) => s.client || '–', 'mono'],
            [t('began'), (s) => (s.began ? time(s.began) : '–'), 'num'],
            [t('lastRead'), (s) => (s.read ? time(s.read, { timeStyle: 'medium' }) : t('readNow')), 'num'],
            [t('events'), (s) => number(s.events), 'right num'],
          ]}
        />
      )}
    </section>
  );
}

/** How many events the page keeps, and of what length of text, though always one. */
const kept = 200;
const keptText = 32 << 20;

interface Shown extends Change {
  n: number;
}

/** What is kept of events that come, the newest first, to those that are there. */
function take(events: Change[], { all, total }: { all: Shown[]; total: number }) {
  const more = [...events.map((e, i) => ({ ...e, n: total + i })).reverse(), ...all];
  let text = 0;
  const end = more.findIndex((c, i) => i >= kept || ((text += c.size) > keptText && i > 0));
  return { all: end < 0 ? more : more.slice(0, end), total: total + events.length };
}

function Live() {
  const [db, setDB] = useState('');
  const [coll, setColl] = useState('');
  const [of, follow] = useState<[string, string]>();
  return (
    <section class="card stack">
      <div class="card-head"><h2>{t('liveTail')}</h2></div>
      <form
        class="grid2 tail"
        onSubmit={(e) => {
          e.preventDefault();
          follow(of ? undefined : [db, coll]);
        }}
      >
        <Field label={t('database')}>
          <input class="mono" value={db} disabled={!!of} spellcheck={false} autocapitalize="off" placeholder={t('emptyIsAll')} onInput={(e) => setDB(e.currentTarget.value)} />
        </Field>
        <Field label={t('collection')}>
          <input class="mono" value={coll} disabled={!!of || db === ''} spellcheck={false} autocapitalize="off" placeholder={t('emptyIsAll')} onInput={(e) => setColl(e.currentTarget.value)} />
        </Field>
        <button type="submit" class={of ? '' : 'primary'}>{t(of ? 'stopFollowing' : 'follow')}</button>
      </form>
      {of && <Tail key={of.join('.')} db={of[0]} coll={of[0] === '' ? '' : of[1]} />}
    </section>
  );
}

function Tail({ db, coll }: { db: string; coll: string }) {
  const [{ all, total }, set] = useState<{ all: Shown[]; total: number }>({ all: [], total: 0 });
  const [state, say] = useState<{ open?: boolean; error?: unknown; ended?: string }>({});
  useEffect(() => {
    if (!visible.value) return;
    const end = new AbortController();
    say({});
    tail(end.signal, db, coll, () => say({ open: true }), (events, ended) => {
      set((before) => take(events, before));
      if (ended !== undefined) say({ ended });
    }).then(
      () => end.signal.aborted || say((s) => (s.ended === undefined ? { error: new TypeError() } : s)),
      (error) => end.signal.aborted || say({ error }),
    );
    return () => end.abort();
  }, [visible.value]);
  return (
    <>
      {state.error !== undefined && <Failure error={state.error} />}
      {state.ended !== undefined && <p class="notice warn" role="alert">{t('streamEnded', { error: state.ended })}</p>}
      {state.open && all.length === 0 && <p class="empty" role="status">{t('waiting')}…</p>}
      {total > all.length && <p class="small quiet">{t('newestOf', { n: all.length })}</p>}
      <ol class="changes">
        {all.map(({ n, event }) => <OneChange key={n} event={event} />)}
      </ol>
    </>
  );
}

/** The fields of an event that its line has. */
const inLine = ['_id', 'operationType', 'clusterTime', 'wallTime', 'ns'];

function OneChange({ event }: { event: Doc }) {
  const ns = event.get('ns');
  const where = ns instanceof Doc ? ns.fields.map(([, v]) => String(v)).join('.') : '';
  const at = plain(event.get('wallTime'));
  const kind = String(event.get('operationType'));
  return (
    <li>
      <details>
        <summary>
          <span class={`tag op-${kind}`}>{kind}</span> <span class="mono">{where}</span> <span class="mono quiet">{line(event.get('documentKey'))}</span>
          {at instanceof Date && <span class="num quiet small"> {time(at, { timeStyle: 'medium' })}</span>}
        </summary>
        <Tree doc={new Doc(event.fields.filter(([name]) => !inLine.includes(name)))} />
      </details>
    </li>
  );
}

const line = (v: Value | undefined) => (v === undefined ? '' : shell(v).slice(0, 200));
