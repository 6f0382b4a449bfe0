// The documents of a collection: found, shown, edited one by one; its indexes.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { ask, read, run } from '../api';
import { collection, fieldsOf, type Collection } from '../collections';
import { Doc, json, parse, plain, Raw, shell, type Sent, type Value } from '../ejson';
import { bytes, compact, t, time } from '../i18n';
import { leaves } from '../leaving';
import { to } from '../route';
import { Act } from './act';
import { Plan } from './plan';
import { Export, Import } from './transfer';
import { Validator } from './validator';
import { Editor, useRead } from '../ui/editor';
import { Dialog, Failure, Segments, useAnswer } from '../ui/parts';
import { Table, type Column } from '../ui/table';
import { Leaving, Tree } from '../ui/tree';

const page = 20;

type Tab = 'documents' | 'indexes' | 'validator';

export function Documents({ db, coll }: { db: string; coll: string }) {
  const known = useAnswer(() => collection(db, coll), [db, coll]);
  const [tab, choose] = useState<Tab>('documents');
  const about = known.value;
  const left = (changed: boolean) => {
    choose('documents');
    if (changed) known.again();
  };
  const tabs: Tab[] = about?.type === 'collection' ? ['documents', 'indexes', 'validator'] : ['documents', 'indexes'];
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
          <Segments label={t('pages')} value={tab} options={tabs.map((v) => [v, t(v)])} choose={choose} />
        </div>
      </div>
      {known.error !== undefined && <Failure error={known.error} again={known.again} />}
      {about && tab === 'documents' && <Query db={db} coll={coll} about={about} />}
      {about && tab === 'indexes' && <Indexes db={db} coll={coll} about={about} />}
      {about && tab === 'validator' && <Validator db={db} coll={coll} about={about} fields={fieldsOf([], about)} close={left} />}
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
  const [importing, bring] = useState(false);
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
  const set = (name: keyof Query) => (text: string) => edit((q) => ({ ...q, [name]: text }));
  const said = { filter: useRead(query.filter), sort: useRead(query.sort), project: useRead(query.project), pipeline: useRead(query.pipeline) };
  const fields = useMemo(() => fieldsOf(found?.docs ?? [], about), [found?.docs, about]);
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
            <Editor key="filter" label={t('filter')} kind="filter" fields={fields} value={query.filter} said={said.filter} onInput={set('filter')} />
            <div class="grid2">
              <Editor key="sort" label={t('sort')} kind="document" fields={fields} value={query.sort} said={said.sort} onInput={set('sort')} hint="{ at: -1 }" />
              <Editor key="project" label={t('projection')} kind="document" fields={fields} value={query.project} said={said.project} onInput={set('project')} hint="{ at: 1 }" />
            </div>
          </>
        ) : (
          <Editor key="pipeline" label={t('pipeline')} kind="pipeline" fields={fields} value={query.pipeline} said={said.pipeline} onInput={set('pipeline')} />
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
              {found.docs.length > 0 && <Export coll={coll} docs={found.docs} />}
              {about.type !== 'view' && (
                <>
                  <button type="button" onClick={() => bring(true)}>
                    {t('import')}
                  </button>
                  <button type="button" onClick={() => add(true)}>
                    {t('addDocument')}
                  </button>
                </>
              )}
              <Segments label={t('view')} value={view} options={[['tree', t('tree')], ['table', t('table')]]} choose={look} />
            </div>
          </div>
          {found.docs.length === 0 ? (
            <div class="card empty">{t('nothingFound')}</div>
          ) : view === 'tree' ? (
            found.docs.map((d, i) => <OneDocument key={`${i} ${json(d.get('_id') ?? null)}`} db={db} coll={coll} doc={d} about={about} whole={query.mode === 'find' && !query.project.trim() && about.type !== 'view'} changed={() => void search(query)} />)
          ) : (
            <AsTable docs={found.docs} about={about} />
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
      {importing && (
        <Import
          db={db}
          coll={coll}
          close={(done) => {
            bring(false);
            if (done) void search(query);
          }}
        />
      )}
      {adding && (
        <AddDocument
          db={db}
          coll={coll}
          fields={fields}
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

/** One field is set, if it still is what was shown. */
function EditValue({ db, coll, id, path, value, close }: { db: string; coll: string; id: Value; path: string; value: Value; close: (done: boolean) => void }) {
  const [text, type] = useState(shell(value));
  const said = useRead(text);
  const to = said.value;
  const command = { update: coll, updates: [{ q: { _id: id, [path]: { $eq: value } }, u: { $set: { [path]: to ?? value } } }] };
  return (
    <Dialog title={t('editTitle', { field: path })} close={() => close(false)}>
      <div class="stack">
        <Editor label={t('value')} kind="document" fields={[]} value={text} said={said} onInput={type} />
        <Act db={db} command={command} ready={to !== undefined && json(to) !== json(value)} due={0} label={t('save')} close={close} check={one} />
      </div>
    </Dialog>
  );
}

function AddDocument({ db, coll, fields, close }: { db: string; coll: string; fields: string[]; close: (done: boolean) => void }) {
  const [text, type] = useState('{\n  \n}');
  const said = useRead(text);
  const doc = said.value;
  const right = doc !== undefined && parse(doc.json) instanceof Doc;
  return (
    <Dialog title={t('addDocument')} close={() => close(false)}>
      <div class="stack">
        <Editor label={t('document')} kind="document" fields={fields} value={text} said={said} onInput={type} />
        <Act db={db} command={{ insert: coll, documents: [doc ?? {}] }} ready={right} due={0} label={t('insert')} close={close} check={one} />
      </div>
    </Dialog>
  );
}

const maxColumns = 16;

function AsTable({ docs, about }: { docs: Doc[]; about: Collection }) {
  const columns = [...new Set(docs.flatMap((d) => d.fields.map(([name]) => name)))].slice(0, maxColumns);
  return (
    <div class="card">
      <Table
        label={t('table')} classes="values" rows={docs}
        columns={[
          ...columns.map((c): Column<Doc> => [<span class="mono">{c}</span>, (d) => (d.get(c) === undefined ? '' : short(shell(d.get(c)))), 'mono']),
          [t('leavesColumn'), (d) => <Leaving at={leaves(d, about)} />],
        ]}
      />
    </div>
  );
}

const short = (s: string) => (s.length > 80 ? `${s.slice(0, 80)}…` : s);

function Indexes({ db, coll, about }: { db: string; coll: string; about: Collection }) {
  const size = useAnswer(async () => (await ask(db, { collStats: coll })).indexSizes as Record<string, number>, [db, coll]);
  if (about.indexes.length === 0) return <div class="card empty">{t('noIndexes')}</div>;
  return (
    <div class="card">
      <Table
        label={t('indexes')} rows={about.indexes} id={(ix) => ix.name}
        columns={[
          [t('name'), (ix) => ix.name, 'mono'],
          [t('key'), (ix) => shell(ix.key as Sent), 'mono'],
          [t('properties'), (ix) => [ix.options.join(', '), ' ', ix.expireAfterSeconds !== undefined && <a href={to('expiry', db, coll)}>{t('expiry')}</a>]],
          [t('size'), (ix) => (size.value?.[ix.name] !== undefined ? bytes(size.value[ix.name]!) : '–'), 'right num'],
          [t('uses'), (ix) => (
            <>
              {ix.uses !== undefined ? compact(ix.uses) : '–'}
              {ix.since && <div class="quiet small">{t('sinceTime', { time: time(ix.since, { dateStyle: 'short', timeStyle: 'short' }) })}</div>}
            </>
          ), 'right num'],
        ]}
      />
    </div>
  );
}
