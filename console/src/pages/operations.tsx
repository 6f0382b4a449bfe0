// What runs, and how the server fares: operations, slow ones, and the last hour of its metrics.
import { useEffect, useState } from 'preact/hooks';
import { ask, isRefused, live, type Sample } from '../api';
import { bytes, compact, number, span, t, time, type Key } from '../i18n';
import { Dialog, Failure, seldom, Segments, useAnswer, visible } from '../ui/parts';
import { Lines } from '../ui/lines';
import { Table, Unseen } from '../ui/table';
import { Act } from './act';

export function Operations() {
  return (
    <>
      <div class="head">
        <div>
          <h1>{t('operationsTitle')}</h1>
          <p>{t('operationsLead')}</p>
        </div>
      </div>
      <Running />
      <LastHour />
    </>
  );
}

interface Running {
  opid: string | number;
  op: string;
  ns: string;
  micros: number;
  client: string;
  user: string;
  plan?: string;
  waits: boolean;
  dying: boolean;
  own: boolean;
  command: string;
}

/** A command without what drivers add to each. */
// eslint-disable-next-line -- as currentOp and the log show it
function shown(command: any): string {
  const { lsid, $clusterTime, $db, ...rest } = command ?? {};
  return JSON.stringify(rest);
}

/** What runs: of all, or of oneself where one may see no more; without this question, and drivers that wait for another primary (hello). */
async function running(passive: boolean): Promise<{ all: Running[]; onlyOwn: boolean; locked: boolean }> {
  const list = (own: boolean) => ask('admin', own ? { currentOp: 1, $ownOps: true } : { currentOp: 1 }, passive);
  let onlyOwn = false;
  const reply = await list(false).catch((e) => {
    if (!isRefused(e)) throw e;
    onlyOwn = true;
    return list(true);
  });
  // eslint-disable-next-line -- an operation as currentOp shows it
  const all = reply.inprog.filter((o: any) => o.opid !== undefined && o.command?.currentOp === undefined && o.command?.topologyVersion === undefined).map((o: any): Running => ({
    opid: o.opid, op: o.op ?? '', ns: o.ns ?? '', micros: Number(o.microsecs_running ?? 0), client: o.client ?? o.desc ?? '', plan: o.planSummary,
    // eslint-disable-next-line -- see above
    user: [(o.effectiveUsers ?? []).map((u: any) => u.user).join(', '), o.appName].filter(Boolean).join(' · '), waits: o.waitingForLock === true, dying: o.killPending === true,
    own: o.isFromUserConnection === true, command: shown(o.command),
  }));
  return { all: all.sort((a: Running, b: Running) => b.micros - a.micros), onlyOwn, locked: reply.fsyncLock === true };
}

interface Slow {
  at: Date;
  ns: string;
  millis: number;
  plan: string;
  command: string;
}

/** The newest slow operations of the log. */
async function slow(passive: boolean): Promise<Slow[]> {
  const { log } = await ask('admin', { getLog: 'global' }, passive);
  const found: Slow[] = [];
  for (let i = log.length - 1; i >= 0 && found.length < 50; i--) {
    if (!log[i].includes('"Slow query"')) continue;
    try {
      const { t: at, attr } = JSON.parse(log[i]);
      found.push({ at: new Date(at.$date), ns: attr.ns ?? '', millis: attr.durationMillis ?? 0, plan: attr.planSummary ?? '', command: shown(attr.command) });
    } catch {
      continue; // a line that was cut
    }
  }
  return found;
}

type Which = 'running' | 'slow';
const slowMicros = 1_000_000;

function Running() {
  const [which, look] = useState<Which>('running');
  return (
    <section class="card" aria-label={t('whatRuns')}>
      <div class="card-head">
        <h2>{t('whatRuns')}</h2>
        <Segments label={t('whatRuns')} value={which} options={[['running', t('running')], ['slow', t('slow')]]} choose={look} />
      </div>
      {which === 'running' ? <Now /> : <SlowOnes />}
    </section>
  );
}

function Now() {
  const found = useAnswer(running, [], seldom);
  const [killing, kill] = useState<Running>();
  const all = found.value?.all ?? [];
  return (
    <>
      {found.error !== undefined && <Failure error={found.error} again={found.again} />}
      {found.value?.locked && <p class="notice warn">{t('fsyncLocked')}</p>}
      {found.value?.onlyOwn && <p class="notice">{t('onlyOwn')}</p>}
      {found.value && all.length === 0 && <p class="empty">{t('nothingRuns')}</p>}
      {all.length > 0 && (
        <Table
          label={t('running')} rows={all} id={(o) => o.opid}
          columns={[
            [t('operation'), (o) => (
              <>
                <span class="mono">{o.op} {o.ns}</span>
                {o.plan && <span class="small quiet"> {o.plan}</span>}
                {o.waits && <span class="tag held"> {t('waitsForLock')}</span>}
                <div class="mono small quiet clip">{o.command}</div>
              </>
            )],
            [t('client'), (o) => [<span class="mono">{o.client}</span>, <div class="quiet small">{o.user}</div>]],
            [t('runsFor'), (o) => (o.micros >= slowMicros ? <span class="due">{span(o.micros / 1e6)}</span> : t('millis', { n: o.micros / 1000 })), 'right num'],
            [<Unseen name={t('kill')} />, (o) => o.own && (
              <button type="button" class="danger" disabled={o.dying} aria-label={t('killNamed', { op: String(o.opid) })} onClick={() => kill(o)}>
                {t(o.dying ? 'dying' : 'kill')}
              </button>
            ), 'right'],
          ]}
        />
      )}
      {killing && (
        <Dialog title={t('killTitle', { op: String(killing.opid) })} close={() => kill(undefined)}>
          <div class="stack">
            <p>{t('killText')}</p>
            <pre class="code-block" tabIndex={0}>{`${killing.op} ${killing.ns}\n${killing.command}`}</pre>
            <Act
              db="admin" command={{ killOp: 1, op: killing.opid }} ready due={0} label={t('kill')}
              close={(done) => {
                kill(undefined);
                if (done) found.again();
              }}
            />
          </div>
        </Dialog>
      )}
    </>
  );
}

function SlowOnes() {
  const found = useAnswer(slow, [], seldom);
  return (
    <>
      {found.error !== undefined && <Failure error={found.error} again={found.again} />}
      {found.value?.length === 0 && <p class="empty">{t('nothingSlow')}</p>}
      {found.value && found.value.length > 0 && (
        <Table
          label={t('slow')} rows={found.value}
          columns={[
            [t('operation'), (o) => (
              <>
                <span class="mono">{o.ns}</span> <span class="small quiet">{o.plan}</span>
                <div class="mono small quiet clip">{o.command}</div>
              </>
            )],
            [t('time'), (o) => time(o.at), 'num'],
            [t('took'), (o) => t('millis', { n: o.millis }), 'right num due'],
          ]}
        />
      )}
    </>
  );
}

const perSecond = (v: number) => (v < 10 ? number(v) : compact(v));
const seconds = (v: number) => t('millis', { n: v * 1000 });

const charts: [Key, (v: number) => string, [string, Key][]][] = [
  ['throughput', perSecond, [['insert', 'opInsert'], ['query', 'opQuery'], ['update', 'opUpdate'], ['delete', 'opDelete'], ['getmore', 'opGetMore'], ['command', 'opCommand'], ['expired', 'opExpired']]],
  ['latency', seconds, [['p50', 'p50'], ['p95', 'p95'], ['p99', 'p99']]],
  ['memory', bytes, [['resident', 'resident'], ['cache', 'blockCache'], ['memtables', 'memtables'], ['operationMemory', 'ofOperations']]],
  ['cache', perSecond, [['cacheHits', 'hits'], ['cacheMisses', 'misses']]],
  ['disk', bytes, [['store', 'store'], ['free', 'free'], ['compactionDebt', 'toCompact']]],
  ['compactions', perSecond, [['compactions', 'compactionRuns'], ['flushes', 'flushes']]],
  ['network', bytes, [['received', 'received'], ['sent', 'sent'], ['logWritten', 'logWritten']]],
  ['processor', number, [['cpu', 'processors'], ['connections', 'connections'], ['active', 'activeConnections']]],
];

const kept = 720;

function LastHour() {
  const [names, setNames] = useState<string[]>([]);
  const [samples, setSamples] = useState<Sample[]>([]);
  const [error, fail] = useState<unknown>();
  const [round, setRound] = useState(0);
  useEffect(() => {
    if (!visible.value) return;
    const end = new AbortController();
    let first = true; // a stream begins with the hour
    fail(undefined);
    const add = (more: Sample[]) => {
      setSamples(first ? () => more : (s) => [...s, ...more].slice(-kept));
      first = false;
    };
    live(end.signal, setNames, add).then(
      () => end.signal.aborted || fail(new TypeError()),
      (e) => end.signal.aborted || fail(e),
    );
    return () => end.abort();
  }, [round, visible.value]);
  if (error !== undefined) return <Failure error={error} again={() => setRound((n) => n + 1)} />;
  if (samples.length === 0) return <p class="quiet">{t('loading')}…</p>;
  const times = samples.map((s) => s.at);
  const last = samples[samples.length - 1]!.values;
  return (
    <>
      <h2 class="apart">{t('lastHour')}</h2>
      <div class="charts">
        {charts.map(([title, format, lines]) => {
          const known = lines.map(([name, label]) => ({ at: names.indexOf(name), label })).filter(({ at }) => at >= 0 && (last[at] !== null || samples.some((s) => s.values[at] !== null)));
          return known.length > 0 && <Lines key={title} title={t(title)} times={times} format={format} lines={known.map(({ at, label }) => ({ name: t(label), values: samples.map((s) => s.values[at]!) }))} />;
        })}
      </div>
    </>
  );
}
