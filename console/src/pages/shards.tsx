// The shards of a cluster, its balancer, and where a collection lies.
import { useRef, useState } from 'preact/hooks';
import { ask, isRefused } from '../api';
import { chunkMap, cellCount, hashAt, type ChunkMap, type Located } from '../cluster';
import { shell, type Sent, type Value } from '../ejson';
import { bytes, compact, number, span, t } from '../i18n';
import { to } from '../route';
import { Dialog, Failure, seldom, useAnswer } from '../ui/parts';
import { Ring } from '../ui/ring';
import { Table } from '../ui/table';
import { Act } from './act';

interface Host {
  address: string;
  state: 'primaryState' | 'secondaryState' | 'notAnswering';
}

interface Shard {
  id: string;
  hosts: Host[];
  zones: string[];
  draining: boolean;
  bytes: number;
  documents: number;
  databases: string[];
}

/** What lies on a shard of a collection. */
interface Part {
  shard: string;
  bytes: number;
  documents: number;
  orphans: number;
}

/** How collections lie, by namespace; nothing where one may not see it. */
async function spread(passive: boolean, ns?: string): Promise<Map<string, Part[]>> {
  const match: Sent[] = ns === undefined ? [] : [{ $match: { ns } }];
  const { cursor } = await ask('admin', { aggregate: 1, pipeline: [{ $shardedDataDistribution: {} }, ...match], cursor: { batchSize: 10_000 } }, passive).catch((e) => {
    if (!isRefused(e)) throw e;
    return { cursor: { firstBatch: [] } };
  });
  // eslint-disable-next-line -- a document of $shardedDataDistribution
  return new Map(cursor.firstBatch.map((d: any) => [d.ns, d.shards.map((s: any): Part => ({ shard: s.shardName, bytes: s.ownedSizeBytes, documents: s.numOwnedDocuments, orphans: s.numOrphanedDocs }))]));
}

interface All {
  shards: Shard[];
  collections: { ns: string; key: Value; parts: Part[] }[];
  more: boolean;
  mode: string;
}

const listed = 200;

async function cluster(passive: boolean): Promise<All> {
  const [shards, databases, pools, balancer, collections, lies] = await Promise.all([
    ask('config', { find: 'shards', sort: { _id: 1 }, batchSize: 1000 }, passive),
    ask('config', { find: 'databases', batchSize: 10_000 }, passive),
    ask('admin', { connPoolStats: 1 }, passive).catch(() => ({ replicaSets: {} })),
    ask('admin', { balancerStatus: 1 }, passive).catch((e) => (isRefused(e) ? { mode: '' } : Promise.reject(e))),
    ask('config', { find: 'collections', filter: { _id: { $ne: 'config.system.sessions' }, unsplittable: { $ne: true } }, sort: { _id: 1 }, limit: listed + 1, batchSize: listed + 1 }, passive),
    spread(passive),
  ]);
  const parts = [...lies.values()].flat();
  return {
    mode: balancer.mode, more: collections.cursor.firstBatch.length > listed,
    // eslint-disable-next-line -- documents of config.collections
    collections: collections.cursor.firstBatch.slice(0, listed).map((c: any) => ({ ns: c._id, key: c.key, parts: lies.get(c._id) ?? [] })),
    // eslint-disable-next-line -- documents of config.shards
    shards: shards.cursor.firstBatch.map((s: any): Shard => {
      // eslint-disable-next-line -- hosts as connPoolStats has them
      const known = new Map<string, any>((pools.replicaSets[s.host.split('/')[0]]?.hosts ?? []).map((h: any) => [h.addr, h]));
      const here = parts.filter((p) => p.shard === s._id);
      return {
        id: s._id, zones: s.tags ?? [], draining: s.draining === true,
        bytes: here.reduce((n, p) => n + p.bytes, 0), documents: here.reduce((n, p) => n + p.documents, 0),
        // eslint-disable-next-line -- documents of config.databases
        databases: databases.cursor.firstBatch.filter((d: any) => d.primary === s._id).map((d: any) => d._id),
        hosts: (s.host.split('/')[1] ?? '').split(',').map((address: string): Host => {
          const h = known.get(address);
          return { address, state: h?.ismaster ? 'primaryState' : h?.ok ? 'secondaryState' : 'notAnswering' };
        }),
      };
    }),
  };
}

/** Asks before a command is run, and looks again after it. */
function Confirm({ title, text, command, close }: { title: string; text: string; command: Sent; close: (done: boolean) => void }) {
  return (
    <Dialog title={title} close={() => close(false)}>
      <div class="stack">
        <p>{text}</p>
        <Act db="admin" command={command} ready due={0} label={title} close={close} />
      </div>
    </Dialog>
  );
}

export function Shards() {
  const found = useAnswer(cluster, [], seldom);
  const [asking, confirm] = useState(false);
  const c = found.value;
  const off = c?.mode === 'off';
  return (
    <>
      {found.error !== undefined && <Failure error={found.error} again={found.again} />}
      {!c && !found.error && <p class="quiet">{t('loading')}…</p>}
      {c && (
        <>
          <section class="card" aria-label={t('balancer')}>
            <div class="card-head flush">
              <div>
                <h2>{t('balancer')}</h2>
                <span class={`tag ${off ? 'held' : ''}`}>{c.mode === '' ? '–' : t(off ? 'balancerOff' : 'balancerOn')}</span>
              </div>
              {c.mode !== '' && (
                <button type="button" onClick={() => confirm(true)}>
                  {t(off ? 'startBalancer' : 'stopBalancer')}
                </button>
              )}
            </div>
          </section>
          <ShardTable shards={c.shards} />
          <section class="card">
            <div class="card-head">
              <h2>{t('shardedCollections')}</h2>
              {c.more && <span class="quiet small">{t('firstShown', { n: listed })}</span>}
            </div>
            {c.collections.length === 0 ? (
              <p class="empty">{t('noSharded')}</p>
            ) : (
              <Table
                label={t('shardedCollections')} rows={c.collections} id={(x) => x.ns}
                columns={[
                  [t('collection'), ({ ns }) => <a class="mono" href={to('cluster', ns.slice(0, ns.indexOf('.')), ns.slice(ns.indexOf('.') + 1))}>{ns}</a>],
                  [t('shardKey'), (x) => shell(x.key), 'mono'],
                  [t('documents'), (x) => compact(x.parts.reduce((n, p) => n + p.documents, 0)), 'right num'],
                  [t('size'), (x) => bytes(x.parts.reduce((n, p) => n + p.bytes, 0)), 'right num'],
                ]}
              />
            )}
          </section>
        </>
      )}
      {asking && (
        <Confirm
          title={t(off ? 'startBalancer' : 'stopBalancer')} text={t(off ? 'startBalancerText' : 'stopBalancerText')} command={off ? { balancerStart: 1 } : { balancerStop: 1 }}
          close={(done) => {
            confirm(false);
            if (done) found.again();
          }}
        />
      )}
    </>
  );
}

function ShardTable({ shards }: { shards: Shard[] }) {
  return (
    <section class="card">
      <div class="card-head"><h2>{t('shards')}</h2></div>
      <Table
        label={t('shards')} rows={shards} id={(s) => s.id}
        columns={[
          [t('shard'), (s) => [<span class="mono">{s.id}</span>, s.draining && <div class="tag held">{t('draining')}</div>]],
          [t('hosts'), (s) => s.hosts.map((h) => (
            <div key={h.address}>
              <span class="mono">{h.address}</span> <span class={`small ${h.state === 'notAnswering' ? 'due' : 'quiet'}`}>{t(h.state)}</span>
            </div>
          ))],
          [t('zones'), (s) => s.zones.join(', ') || '–'],
          [t('databasesHere'), (s) => s.databases.slice(0, 20).join(', ') + (s.databases.length > 20 ? ' …' : '') || '–', 'mono'],
          [t('documents'), (s) => compact(s.documents), 'right num'],
          [t('size'), (s) => bytes(s.bytes), 'right num'],
        ]}
      />
    </section>
  );
}

interface Balance {
  even: boolean;
  violation: string;
  message: string;
  held: string;
  bytesToMove: number;
  secondsLeft?: number;
  moves: { from: string; to: string; bytes: number; copied: number }[];
}

async function balance(ns: string, passive: boolean): Promise<Balance | undefined> {
  const r = await ask('admin', { balancerCollectionStatus: ns }, passive).catch((e) => (isRefused(e) ? undefined : Promise.reject(e)));
  const p = r?.details?.progress ?? {};
  return r && {
    even: r.balancerCompliant, violation: r.firstComplianceViolation ?? '', message: r.details?.message ?? '', held: r.details?.held ?? '', bytesToMove: p.bytesToMove ?? 0, secondsLeft: p.secondsLeft,
    // eslint-disable-next-line -- moves as balancerCollectionStatus has them
    moves: (p.moves ?? []).map((m: any) => ({ from: m.from, to: m.to, bytes: m.bytes, copied: m.bytesCopied })),
  };
}

export function OneCollection({ ns }: { ns: string }) {
  const found = useAnswer(
    async (passive, soFar: (part: { map?: Located; parts: Part[]; status?: Balance }) => void) => {
      const { cursor } = await ask('config', { find: 'shards', sort: { _id: 1 }, batchSize: 1000 }, passive);
      // eslint-disable-next-line -- documents of config.shards
      const shards: string[] = cursor.firstBatch.map((s: any) => s._id);
      const [map, parts, status] = await Promise.all([chunkMap(ns, shards, passive, (map) => soFar({ map, parts: [] })), spread(passive, ns), balance(ns, passive)]);
      return { map, parts: parts.get(ns) ?? [], status };
    },
    [ns], seldom,
  );
  const [asking, confirm] = useState(false);
  const { map, parts, status } = found.value ?? {};
  return (
    <>
      <div class="head">
        <div>
          <p class="crumbs"><a href={to('cluster')}>{t('allOfCluster')}</a></p>
          <h1 class="mono">{ns}</h1>
          {map && <p class="mono small">{shell(map.key)}</p>}
        </div>
        {map && (
          <button type="button" onClick={() => confirm(true)}>
            {t(map.noBalance ? 'doBalance' : 'dontBalance')}
          </button>
        )}
      </div>
      {found.error !== undefined && <Failure error={found.error} again={found.again} />}
      {!found.value && !found.error && <p class="quiet">{t('loading')}…</p>}
      {found.value && !map && <p class="card empty">{t('noSharded')}</p>}
      {status && map && <Balancing status={status} />}
      {map && <Lies map={map} parts={parts!} />}
      {asking && map && (
        <Confirm
          title={t(map.noBalance ? 'doBalance' : 'dontBalance')} text={t(map.noBalance ? 'doBalanceText' : 'dontBalanceText')} command={{ configureCollectionBalancing: ns, noBalance: !map.noBalance }}
          close={(done) => {
            confirm(false);
            if (done) found.again();
          }}
        />
      )}
    </>
  );
}

function Balancing({ status: s }: { status: Balance }) {
  return (
    <section class="card" aria-label={t('balancer')}>
      <span class={`tag ${s.even ? '' : 'held'}`}>{t(s.even ? 'balanced' : 'uneven')}</span>
      {!s.even && (
        <div class="stack">
          <p lang="en">{s.violation}: {s.message}</p>
          {s.held && <p class="notice warn">{t('keptFrom', { why: s.held })}</p>}
          {s.bytesToMove > 0 && (
            <p class="num">
              {t('toMove', { bytes: bytes(s.bytesToMove) })}
              {s.secondsLeft !== undefined && ` · ${t('moveLeft', { span: span(s.secondsLeft) })}`}
            </p>
          )}
        </div>
      )}
      {s.moves.map((m, i) => (
        <p key={i} class="move">
          <span class="num">{t('moving', { from: m.from, to: m.to, done: bytes(m.copied), all: bytes(Math.max(m.bytes, m.copied)) })}</span>
          <progress aria-label={`${m.from} → ${m.to}`} max={Math.max(1, m.bytes, m.copied)} value={m.copied} />
        </p>
      ))}
    </section>
  );
}

const hues = 7;

function Lies({ map, parts }: { map: ChunkMap; parts: Part[] }) {
  const table = useRef<HTMLTableElement>(null);
  const [cell, point] = useState<number | null>(null);
  const colors = () => [...table.current!.querySelectorAll('.swatch')].map((e) => getComputedStyle(e).backgroundColor);
  const all = parts.reduce((n, p) => n + p.bytes, 0);
  const shardAt = cell === null ? undefined : map.shards[map.cells[cell]!];
  return (
    <section class="card lies" aria-label={t('chunkMap')}>
      <div>
        <h2>{t('chunkMap')}</h2>
        <Ring map={map} label={t(map.hashed ? 'mapOfHash' : 'mapOfOrder')} point={point} colors={colors} ink={() => getComputedStyle(table.current!).color} />
        <p class="small quiet num" aria-live="polite">
          {cell !== null && shardAt !== undefined
            ? t('pointedAt', { from: map.hashed ? hashAt(cell) : `${number((100 * cell) / cellCount)} %`, shard: shardAt })
            : map.drawn < map.chunks ? t('firstChunks', { n: map.drawn }) : t('nChunks', { n: map.chunks })}
        </p>
      </div>
      <div class="scroll" tabIndex={0} role="region" aria-label={t('shards')}>
        <table ref={table}>
          <thead>
            <tr>
              <th scope="col">{t('shard')}</th>
              <th scope="col" class="right">{t('chunks')}</th>
              <th scope="col" class="right">{t('documents')}</th>
              <th scope="col" class="right">{t('size')}</th>
              <th scope="col" class="right">{t('share')}</th>
            </tr>
          </thead>
          <tbody>
            {map.shards.map((s, i) => {
              const p = parts.find((x) => x.shard === s);
              return (
                <tr key={s}>
                  <th scope="row"><span class={`swatch square s${(i % hues) + 1}`} aria-hidden="true" /><span class="mono">{s}</span></th>
                  <td class="right num">{number(map.count[i]!)}</td>
                  <td class="right num">
                    {p ? compact(p.documents) : '–'}
                    {p && p.orphans > 0 && <div class="quiet small">{t('orphans', { n: p.orphans })}</div>}
                  </td>
                  <td class="right num">{p ? bytes(p.bytes) : '–'}</td>
                  <td class="right num">{p && all > 0 ? `${number(Math.round((100 * p.bytes) / all))} %` : '–'}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
        {map.zones.length > 0 && (
          <table class="apart">
            <thead>
              <tr>
                <th scope="col">{t('zone')}</th>
                <th scope="col">{t('from')}</th>
                <th scope="col">{t('until')}</th>
              </tr>
            </thead>
            <tbody>
              {map.zones.map((z, i) => (
                <tr key={i}>
                  <th scope="row"><span class={`swatch square s${((map.shards.length - 1 - (i % map.shards.length)) % hues) + 1}`} aria-hidden="true" />{z.zone}</th>
                  <td class="mono num">{hashAt(Math.round(z.from * cellCount))}</td>
                  <td class="mono num">{hashAt(Math.round(z.to * cellCount))}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </div>
    </section>
  );
}
