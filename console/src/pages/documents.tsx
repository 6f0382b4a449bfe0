// The documents of a collection: found, shown, edited one by one; its indexes.
import { useEffect, useRef, useState } from 'preact/hooks';
import { ask, read, run } from '../api';
import { collection, type Collection } from '../collections';
import { Doc, json, parse, plain, Raw, shell, type Sent, type Value } from '../ejson';
import { bytes, compact, t, time } from '../i18n';
import { leaves } from '../leaving';
import { to } from '../route';
import { Act } from './act';
import { Plan } from './plan';
import { Dialog, Failure, Field, Segments, useAnswer } from '../ui/parts';
import { Leaving, Tree } from '../ui/tree';

const page = 20;

type Tab = 'documents' | 'indexes';

export function Documents({ db, coll }: { db: string; coll: string }) {
  const known = useAnswer(() => collection(db, coll), [db, coll]);
  const [tab, choose] = useState<Tab>('documents');
  return (
    <>
      <div class="head">
        <div>
          <p class="crumbs">
            <a href={to('data')}>{t('allCollections')}</a>
          </p>
          <h1 class="mono">{`${db}.${coll}`}</h1>
        </div>
        <div class="actions">
          <a class="button" href={to('expiry', db, coll)}>
            {t('expiry')}
          </a>
          <Segments label={t('pages')} value={tab} options={[['documents', t('documents')], ['indexes', t('indexes')]]} choose={choose} />
        </div>
      </div>
      {known.error !== undefined && <Failure error={known.error} again={known.again} />}
      {known.value && (tab === 'documents' ? <Query db={db} coll={coll} about={known.value} /> : <Indexes db={db} coll={coll} about={known.value} />)}
    </>
  );
}

type Mode = 'find' | 'aggregate';
interface Query {
  mode: Mode;
  filter: string;
  sort: string;
  project: string;
  pipeline: string;
}

const nothing: Query = { mode: 'find', filter: '{}', sort: '', project: '', pipeline: '[\n  { $match: {} }\n]' };

/** The command of a query. */
async function commandOf(coll: string, q: Query): Promise<{ [name: string]: Sent }> {
  const given = async (text: string) => (text.trim() ? read(text) : undefined);
  if (q.mode === 'aggregate') return { aggregate: coll, pipeline: await read(q.pipeline), cursor: { batchSize: page } };
  return { find: coll, filter: (await given(q.filter)) ?? {}, sort: await given(q.sort), projection: await given(q.project), batchSize: page };
}

interface Found {
  docs: Doc[];
  id: string;
  took: number;
}

function Query({ db, coll, about }: { db: string; coll: string; about: Collection }) {
  const [query, edit] = useState(nothing);
  const [found, find] = useState<Found>();
  const [plan, explain] = useState<Doc>();
  const [error, fail] = useState<unknown>();
  const [view, look] = useState<'tree' | 'table'>('tree');
  const [adding, add] = useState(false);
  const cursor = useRef('0');
  const kill = () => {
    if (cursor.current !== '0') void run(db, { killCursors: coll, cursors: [long(cursor.current)] }, true).catch(() => undefined);
    cursor.current = '0';
  };
  const doing = async (what: () => Promise<void>) => {
    fail(undefined);
    try {
      await what();
    } catch (e) {
      fail(e);
    }
  };
  const search = (q: Query) =>
    doing(async () => {
      const start = performance.now();
      const reply = await run(db, await commandOf(coll, q));
      kill();
      const [docs, id] = batch(reply, 'firstBatch');
      cursor.current = id;
      explain(undefined);
      find({ docs, id, took: performance.now() - start });
    });
  const more = () =>
    doing(async () => {
      const [docs, id] = batch(await run(db, { getMore: long(cursor.current), collection: coll, batchSize: page }), 'nextBatch');
      cursor.current = id;
      find((f) => f && { ...f, docs: [...f.docs, ...docs], id });
    });
  const shown = () => doing(async () => explain(await run(db, { explain: await commandOf(coll, query), verbosity: 'executionStats' })));
  useEffect(() => {
    void search(query);
    return kill;
  }, []);
  const set = (name: keyof Query) => (e: { currentTarget: { value: string } }) => edit({ ...query, [name]: e.currentTarget.value });
  const submit = (e?: Event) => {
    e?.preventDefault();
    void search(query);
  };
  const onKeyDown = (e: KeyboardEvent) => e.key === 'Enter' && (e.ctrlKey || e.metaKey) && submit(e);
  return (
    <>
      <form class="card query" onSubmit={submit} onKeyDown={onKeyDown}>
        <div class="card-head">
          <Segments label={t('query')} value={query.mode} options={[['find', t('find')], ['aggregate', t('aggregate')]]} choose={(mode) => edit({ ...query, mode })} />
          <div class="actions">
            <button type="button" onClick={shown}>
              {t('explain')}
            </button>
            <button class="primary">{t('run')}</button>
          </div>
        </div>
        {query.mode === 'find' ? (
          <>
            <Field label={t('filter')}>
              <Code value={query.filter} onInput={set('filter')} />
            </Field>
            <div class="grid2">
              <Field label={t('sort')}>
                <Code value={query.sort} onInput={set('sort')} placeholder="{ at: -1 }" />
              </Field>
              <Field label={t('projection')}>
                <Code value={query.project} onInput={set('project')} placeholder="{ at: 1 }" />
              </Field>
            </div>
          </>
        ) : (
          <Field label={t('pipeline')}>
            <Code value={query.pipeline} onInput={set('pipeline')} />
          </Field>
        )}
        {error !== undefined && <Failure error={error} />}
      </form>
      {plan && <Plan plan={plan} close={() => explain(undefined)} />}
      {found && (
        <section class="found" aria-label={t('documents')}>
          <div class="card-head">
            <span class="quiet small" aria-live="polite">
              {t(found.id === '0' ? 'found' : 'foundMore', { n: found.docs.length })} · {Math.round(found.took)} ms
            </span>
            <div class="actions">
              {about.type !== 'view' && (
                <button type="button" onClick={() => add(true)}>
                  {t('addDocument')}
                </button>
              )}
              <Segments label={t('view')} value={view} options={[['tree', t('tree')], ['table', t('table')]]} choose={look} />
            </div>
          </div>
          {found.docs.length === 0 ? (
            <div class="card empty">{t('nothingFound')}</div>
          ) : view === 'tree' ? (
            found.docs.map((d, i) => <OneDocument key={`${i} ${json(d.get('_id') ?? null)}`} db={db} coll={coll} doc={d} about={about} whole={query.mode === 'find' && !query.project.trim() && about.type !== 'view'} changed={() => void search(query)} />)
          ) : (
            <Table docs={found.docs} about={about} />
          )}
          {found.id !== '0' && (
            <p class="more">
              <button type="button" onClick={more}>
                {t('more')}
              </button>
            </p>
          )}
        </section>
      )}
      {adding && (
        <AddDocument
          db={db}
          coll={coll}
          close={(done) => {
            add(false);
            if (done) void search(query);
          }}
        />
      )}
    </>
  );
}

const long = (n: string) => new Raw(`{"$numberLong":"${n}"}`);

/** The documents of a reply with a cursor, and the cursor's id, whose digits a number would lose. */
function batch(reply: Doc, name: string): [Doc[], string] {
  const cursor = reply.get('cursor') as Doc;
  return [cursor.get(name) as Doc[], (cursor.get('id') as { text: string }).text];
}

function Code({ value, onInput, placeholder }: { value: string; onInput: (e: { currentTarget: { value: string } }) => void; placeholder?: string }) {
  return <textarea class="code" rows={Math.min(16, value.split('\n').length)} value={value} placeholder={placeholder} onInput={onInput} spellcheck={false} autocapitalize="off" />;
}

function OneDocument({ db, coll, doc, about, whole, changed }: { db: string; coll: string; doc: Doc; about: Collection; whole: boolean; changed: () => void }) {
  const [editing, edit] = useState<{ path: string; value: Value }>();
  const [deleting, remove] = useState(false);
  const id = doc.get('_id');
  const may = whole && id !== undefined && about.type === 'collection';
  const close = (done: boolean) => {
    edit(undefined);
    remove(false);
    if (done) changed();
  };
  return (
    <article class="card document">
      <Leaving at={leaves(doc, about)} />
      <Tree doc={doc} edit={may ? (path, value) => edit({ path, value }) : undefined} />
      {may && (
        <button type="button" class="plain danger remove" onClick={() => remove(true)} aria-label={t('deleteNamed', { id: shell(id) })}>
          {t('delete')}
        </button>
      )}
      {editing && <EditValue db={db} coll={coll} id={id!} {...editing} close={close} />}
      {deleting && (
        <Dialog title={t('deleteTitle')} close={() => close(false)}>
          <div class="stack">
            <pre class="code-block" tabIndex={0}>
              {shell(doc)}
            </pre>
            <Act db={db} command={{ delete: coll, deletes: [{ q: { _id: id }, limit: 1 }] }} ready due={0} label={t('delete')} close={close} check={one} />
          </div>
        </Dialog>
      )}
    </article>
  );
}

/** Fails where a write has met no document: it was changed or removed meanwhile. */
const one = (reply: Doc) => {
  const { n, writeErrors } = plain(reply);
  if (writeErrors?.length) throw new Error(writeErrors[0].errmsg);
  if (n !== 1) throw new Error(t('changedMeanwhile'));
};

/** What a person types as a value, once it can be read. */
function useValue(first: string) {
  const [text, type] = useState(first);
  const [said, say] = useState<{ of?: string; value?: Raw; error?: unknown }>({});
  useEffect(() => {
    let over = false;
    const timer = setTimeout(() => {
      read(text).then(
        (value) => over || say({ of: text, value }),
        (error) => over || say({ of: text, error }),
      );
    }, 250);
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [text]);
  const field = (label: string) => (
    <>
      <Field label={label}>
        <Code value={text} onInput={(e) => type(e.currentTarget.value)} />
      </Field>
      {said.of === text && said.error !== undefined && <Failure error={said.error} />}
    </>
  );
  return [said.of === text ? said.value : undefined, field] as const;
}

/** One field is set, if it still is what was shown. */
function EditValue({ db, coll, id, path, value, close }: { db: string; coll: string; id: Value; path: string; value: Value; close: (done: boolean) => void }) {
  const [to, field] = useValue(shell(value));
  const command = { update: coll, updates: [{ q: { _id: id, [path]: { $eq: value } }, u: { $set: { [path]: to ?? value } } }] };
  return (
    <Dialog title={t('editTitle', { field: path })} close={() => close(false)}>
      <div class="stack">
        {field(t('value'))}
        <Act db={db} command={command} ready={to !== undefined && json(to) !== json(value)} due={0} label={t('save')} close={close} check={one} />
      </div>
    </Dialog>
  );
}

function AddDocument({ db, coll, close }: { db: string; coll: string; close: (done: boolean) => void }) {
  const [doc, field] = useValue('{\n  \n}');
  const right = doc !== undefined && parse(doc.json) instanceof Doc;
  return (
    <Dialog title={t('addDocument')} close={() => close(false)}>
      <div class="stack">
        {field(t('document'))}
        <Act db={db} command={{ insert: coll, documents: [doc ?? {}] }} ready={right} due={0} label={t('insert')} close={close} check={one} />
      </div>
    </Dialog>
  );
}

const maxColumns = 16;

function Table({ docs, about }: { docs: Doc[]; about: Collection }) {
  const columns = [...new Set(docs.flatMap((d) => d.fields.map(([name]) => name)))].slice(0, maxColumns);
  return (
    <div class="card">
      <div class="scroll" tabIndex={0} role="region" aria-label={t('table')}>
        <table class="values">
          <thead>
            <tr>
              {columns.map((c) => (
                <th key={c} scope="col" class="mono">
                  {c}
                </th>
              ))}
              <th scope="col">{t('leavesColumn')}</th>
            </tr>
          </thead>
          <tbody>
            {docs.map((d, i) => (
              <tr key={i}>
                {columns.map((c) => {
                  const v = d.get(c);
                  return (
                    <td key={c} class="mono">
                      {v === undefined ? '' : short(shell(v))}
                    </td>
                  );
                })}
                <td>
                  <Leaving at={leaves(d, about)} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </div>
  );
}

const short = (s: string) => (s.length > 80 ? `${s.slice(0, 80)}…` : s);

function Indexes({ db, coll, about }: { db: string; coll: string; about: Collection }) {
  const size = useAnswer(async () => (await ask(db, { collStats: coll })).indexSizes as Record<string, number>, [db, coll]);
  if (about.indexes.length === 0) return <div class="card empty">{t('noIndexes')}</div>;
  return (
    <div class="card">
      <div class="scroll" tabIndex={0} role="region" aria-label={t('indexes')}>
        <table>
          <thead>
            <tr>
              <th scope="col">{t('name')}</th>
              <th scope="col">{t('key')}</th>
              <th scope="col">{t('properties')}</th>
              <th scope="col" class="right">
                {t('size')}
              </th>
              <th scope="col" class="right">
                {t('uses')}
              </th>
            </tr>
          </thead>
          <tbody>
            {about.indexes.map((ix) => (
              <tr key={ix.name}>
                <td class="mono">{ix.name}</td>
                <td class="mono">{shell(ix.key as Sent)}</td>
                <td>
                  {ix.options.join(', ')} {ix.expireAfterSeconds !== undefined && <a href={to('expiry', db, coll)}>{t('expiry')}</a>}
                </td>
                <td class="right num">{size.value?.[ix.name] !== undefined ? bytes(size.value[ix.name]!) : '–'}</td>
                <td class="right num">
                  {ix.uses !== undefined ? compact(ix.uses) : '–'}
                  {ix.since && <div class="quiet small">{t('sinceTime', { time: time(ix.since, { dateStyle: 'short', timeStyle: 'short' }) })}</div>}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </div>
  );
}
