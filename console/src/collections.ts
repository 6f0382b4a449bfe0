// Databases and collections, and what is known of one.
import { ask, run } from './api';
import { Doc, plain, type Value } from './ejson';

export interface Named {
  db: string;
  name: string;
  type: string;
}

const batchSize = 2000;

/** All collections that one may see, by database and name. */
export async function collections(): Promise<Named[]> {
  const { databases } = await ask('admin', { listDatabases: 1, nameOnly: true, authorizedDatabases: true });
  const all: Named[] = [];
  for (const { name: db } of databases) {
    let { cursor } = await ask(db, { listCollections: 1, nameOnly: true, authorizedCollections: true, cursor: { batchSize } });
    let batch = cursor.firstBatch;
    for (;;) {
      for (const c of batch) all.push({ db, name: c.name, type: c.type });
      if (cursor.id === 0) break;
      ({ cursor } = await ask(db, { getMore: cursor.id, collection: '$cmd.listCollections', batchSize }));
      batch = cursor.nextBatch;
    }
  }
  return all.sort((a, b) => (a.db === b.db ? (a.name < b.name ? -1 : 1) : a.db < b.db ? -1 : 1));
}

export interface Index {
  name: string;
  key: Record<string, unknown>;
  /** What is special about it. */
  options: string[];
  expireAfterSeconds?: number;
  byLastWrite: boolean;
  partial: boolean;
  uses?: number;
  since?: Date;
}

export interface Collection {
  type: string;
  options: Record<string, unknown>;
  /** As it is, with types and the order of fields. */
  validator?: Doc;
  indexes: Index[];
}

/** What is known of a collection; how indexes are used only where one may see that. */
export async function collection(db: string, name: string): Promise<Collection> {
  const reply = await run(db, { listCollections: 1, filter: { name }, authorizedCollections: true, cursor: {} });
  const [first] = (reply.get('cursor') as Doc).get('firstBatch') as Doc[];
  const found = first ? plain(first) : { type: 'collection', options: {} };
  if (found.type === 'view') return { type: found.type, options: found.options, indexes: [] };
  const listed = await ask(db, { listIndexes: name, cursor: {} }).catch(() => ({ cursor: { firstBatch: [] } }));
  const stats = await ask(db, { aggregate: name, pipeline: [{ $indexStats: {} }], cursor: {} }).catch(() => ({ cursor: { firstBatch: [] } }));
  // eslint-disable-next-line -- indexes as the server lists them
  const uses = new Map<string, any>(stats.cursor.firstBatch.map((s: any) => [s.name, s.accesses]));
  return {
    type: found.type, options: found.options ?? {}, validator: (first?.get('options') as Doc | undefined)?.get('validator') as Doc | undefined,
    // eslint-disable-next-line -- see above
    indexes: listed.cursor.firstBatch.map((ix: any): Index => ({
      name: ix.name, key: ix.key, expireAfterSeconds: ix.expireAfterSeconds, partial: ix.partialFilterExpression !== undefined,
      byLastWrite: ix.storageEngine?.mayfly?.expiry?.by === 'lastWrite', uses: uses.get(ix.name)?.ops, since: uses.get(ix.name)?.since,
      options: ['unique', 'sparse', 'hidden', 'clustered'].filter((o) => ix[o]).concat(ix.partialFilterExpression ? ['partial'] : []),
    })),
  };
}

const maxFields = 500;

/** The names of fields that are known: of documents that were read, with those within them, and of indexes. */
export function fieldsOf(docs: Doc[], c: Collection): string[] {
  const names = new Set(c.indexes.flatMap((ix) => Object.keys(ix.key)));
  const add = (v: Value | undefined, path: string) => {
    if (Array.isArray(v)) v.forEach((x) => x instanceof Doc && add(x, path));
    else if (v instanceof Doc) {
      for (const [name, x] of v.fields) {
        if (names.size >= maxFields) return;
        names.add(path + name);
        add(x, `${path}${name}.`);
      }
    }
  };
  docs.forEach((d) => add(d, ''));
  return [...names].filter((name) => !name.startsWith('$')).sort();
}
