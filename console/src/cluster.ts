// Where the chunks of a collection lie: as many as there are, drawn in as many cells as can be told apart.
import { ask, run } from './api';
import { Doc, plain, type Sent, type Value } from './ejson';

/** How many cells the circle has: about two for each pixel of its edge. */
export const cellCount = 4096;
/** How many chunks are read one by one. More are counted by cells on the server. */
export const readOneByOne = 10_000;

export interface Zone {
  zone: string;
  from: number;
  to: number;
}

/** A collection's chunks over the circle: by the hash where the shard key begins with one, else in their order. */
export interface ChunkMap {
  hashed: boolean;
  shards: string[];
  chunks: number;
  /** How many are in the cells: not all where there are very many in an order. */
  drawn: number;
  /** The chunks of each shard. */
  count: number[];
  /** The shard that has most of each cell, -1 for none. */
  cells: Int16Array;
  zones: Zone[];
}

const half = 2 ** 63;

const double = (n: number): Sent => ({ $numberDouble: String(n) });

/** Where a bound is on the circle, from 0 to 1. */
const placeOf = (v: unknown) => (typeof v === 'number' ? Math.min(1, Math.max(0, (v + half) / (2 * half))) : v === 'maxKey' ? 1 : 0);

/** Colours cells: chunks are given in order, by where each begins. */
export function toCells(starts: ArrayLike<number>, shardOf: ArrayLike<number>): Int16Array {
  const cells = new Int16Array(cellCount).fill(-1);
  const most = new Float64Array(cellCount);
  const share = new Map<number, number>(); // of the shards in one cell that several chunks share
  let open = -1;
  for (let i = 0; i < starts.length; i++) {
    const from = starts[i]! * cellCount, to = (i + 1 < starts.length ? starts[i + 1]! : 1) * cellCount;
    for (let c = Math.floor(from); c < cellCount && c < to; c++) {
      if (c !== open) share.clear();
      open = c;
      const part = (share.get(shardOf[i]!) ?? 0) + Math.min(to, c + 1) - Math.max(from, c);
      share.set(shardOf[i]!, part);
      if (part > most[c]!) {
        most[c] = part;
        cells[c] = shardOf[i]!;
      }
    }
  }
  return cells;
}

/** What config.collections has of a sharded collection. */
async function entry(ns: string, passive: boolean): Promise<Doc | undefined> {
  const reply = await run('config', { find: 'collections', filter: { _id: ns }, limit: 1 }, passive);
  const batch = (reply.get('cursor') as Doc).get('firstBatch') as Value[];
  return batch[0] as Doc | undefined;
}

/** A map, and what config.collections has of its collection. */
export type Located = ChunkMap & { key: Value; noBalance: boolean };

/** The map of a collection; undefined where it is not sharded. soFar is told of one with many chunks as it is counted. */
export async function chunkMap(ns: string, shards: string[], passive: boolean, soFar?: (map: Located) => void): Promise<Located | undefined> {
  const found = await entry(ns, passive);
  const uuid = found?.get('uuid');
  if (!found || uuid === undefined) return undefined;
  const key = found.get('key') as Doc;
  const [field, kind] = key.fields[0]!;
  const hashed = kind === 'hashed';
  const count = async (limit?: number) => (await ask('config', { count: 'chunks', query: { uuid } as Sent, limit }, passive)).n as number;
  const tags = await ask('config', { find: 'tags', filter: { ns }, sort: { min: 1 } }, passive);
  // eslint-disable-next-line -- a document of config.tags
  const zones = hashed ? tags.cursor.firstBatch.map((z: any): Zone => ({ zone: z.tag, from: placeOf(z.min[field]), to: placeOf(z.max[field]) })) : [];
  const about = { hashed, shards, zones, key, noBalance: plain(found.get('noBalance')) === true };
  const few = (await count(readOneByOne + 1)) <= readOneByOne;
  if (few || !hashed) {
    const cells = await read(uuid, field, hashed, shards, passive);
    return { ...about, ...cells, chunks: few ? cells.drawn : await count() };
  }
  const located = (cells: Cells) => ({ ...about, ...cells, chunks: cells.drawn });
  return located(await counted(uuid, field, shards, passive, (cells) => soFar?.(located(cells))));
}

type Cells = Pick<ChunkMap, 'cells' | 'count' | 'drawn'>;

async function read(uuid: Value, field: string, hashed: boolean, shards: string[], passive: boolean): Promise<Cells> {
  const { cursor } = await ask('config', { find: 'chunks', filter: { uuid }, sort: { min: 1 }, projection: { _id: 0, min: 1, shard: 1 }, limit: readOneByOne, batchSize: readOneByOne, singleBatch: true }, passive);
  // eslint-disable-next-line -- a document of config.chunks
  const all: any[] = cursor.firstBatch;
  const shardOf = all.map((c) => shards.indexOf(c.shard));
  const starts = all.map((c, i) => (hashed ? placeOf(c.min[field]) : i / all.length));
  return { cells: toCells(starts, shardOf), count: shards.map((_, s) => shardOf.filter((x) => x === s).length), drawn: all.length };
}

/** In how many parts of the circle chunks are counted: no question asks for much, and the map grows before one's eyes. */
const parts = 16;
const perPart = cellCount / parts;

/** The chunks of each cell, counted by the server: what is sent does not grow with their number. */
async function counted(uuid: Value, field: string, shards: string[], passive: boolean, soFar: (cells: Cells) => void): Promise<Cells> {
  const min: Sent = { $getField: { field: { $literal: field }, input: '$min' } };
  const cell: Sent = { $cond: [{ $isNumber: min }, { $min: [cellCount - 1, { $floor: { $multiply: [{ $divide: [{ $add: [{ $toDouble: min }, double(half)] }, double(2 * half)] }, cellCount] } }] }, 0] };
  const sums = Object.fromEntries(shards.map((s, i) => [`s${i}`, { $sum: { $cond: [{ $eq: ['$shard', { $literal: s }] }, 1, 0] } } as Sent]));
  const cells = new Int16Array(cellCount).fill(-1), count = shards.map(() => 0);
  let before = -1, drawn = 0; // a cell in which no chunk begins is of the one that began last
  for (let part = 0; part < parts; part++) {
    const at = (cell: number): Sent => ({ [field]: { $numberLong: hashAt(cell) } });
    const from = part > 0 ? { $gte: at(part * perPart) } : {}, to = part < parts - 1 ? { $lt: at((part + 1) * perPart) } : {};
    const { cursor } = await ask('config', { aggregate: 'chunks', pipeline: [{ $match: { uuid, min: { ...from, ...to } } }, { $sort: { min: 1 } }, { $group: { _id: cell, last: { $last: '$shard' }, ...sums } }, { $sort: { _id: 1 } }], cursor: { batchSize: cellCount } }, passive);
    let next = part * perPart;
    for (const g of cursor.firstBatch) {
      while (next < g._id) cells[next++] = before;
      let best = 0;
      shards.forEach((_, i) => {
        count[i]! += g[`s${i}`];
        drawn += g[`s${i}`];
        if (g[`s${i}`] > g[`s${best}`]) best = i;
      });
      cells[next++] = best;
      before = shards.indexOf(g.last);
    }
    while (next < (part + 1) * perPart) cells[next++] = before;
    soFar({ cells: cells.slice(), count: count.slice(), drawn });
  }
  return { cells, count, drawn };
}

/** The hash at which a cell begins. */
export const hashAt = (cell: number) => ((BigInt(cell) << 52n) - (1n << 63n)).toString();
