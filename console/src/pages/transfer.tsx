// A page of documents as a file, and a file into a collection.
import { useEffect, useState } from 'preact/hooks';
import { CommandError, read } from '../api';
import { Code, Doc, newObjectId, parse, plain, type Raw, shell, type Sent } from '../ejson';
import { bytes, t } from '../i18n';
import { readings, write, type Format } from '../transfer';
import { Dialog, Failure, Field } from '../ui/parts';
import { Act } from './act';

const formats: [Format, string][] = [['jsonl', 'JSON'], ['csv', 'CSV']];

/** Saves the documents that are shown. */
export function Export({ coll, docs }: { coll: string; docs: Doc[] }) {
  const save = (format: Format) => {
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob([write(docs, format)]));
    link.download = `${coll.replace(/[^\w.-]/g, '_')}.${format}`;
    link.click();
    URL.revokeObjectURL(link.href);
  };
  return (
    <>
      {formats.map(([format, name]) => (
        <button key={format} type="button" aria-label={t('exportAs', { format: name })} onClick={() => save(format)}>
          ↓ {name}
        </button>
      ))}
    </>
  );
}

/** What is imported at once, and shown of it. */
const most = 1000;
const longest = 12 << 20;
const shown = 3;

/** The documents of a text, each as the server has read it. Each has an _id, as drivers give one: if the reply to an insert is lost, another one does not double what went in. */
async function documentsOf(text: string): Promise<Doc[]> {
  const all = parse((await readFirst(readings(text))).json);
  if (!Array.isArray(all) || !all.every((d) => d instanceof Doc)) throw new Error(t('notDocuments'));
  if (all.length > most) throw new Error(t('tooMany', { n: most }));
  return (all as Doc[]).map((d) => (d.get('_id') === undefined ? new Doc([['_id', newObjectId()], ...d.fields]) : d));
}

/** The first of several readings that the server understands. If there is none, it fails as the one that was right for the longest. */
async function readFirst([text, ...others]: string[]): Promise<Raw> {
  try {
    return await read(text!);
  } catch (error) {
    if (others.length === 0) throw error;
    return readFirst(others).catch((other) => Promise.reject(reached(other) > reached(error) ? other : error));
  }
}

const reached = (e: unknown) => (e instanceof CommandError && e.at) || 0;

export function Import({ db, coll, close }: { db: string; coll: string; close: (done: boolean) => void }) {
  const [text, type] = useState('');
  const [said, say] = useState<{ of?: string; docs?: Doc[]; error?: unknown }>({});
  const [begun, begin] = useState(false); // some are in
  const left = (done: boolean) => close(done || begun);
  useEffect(() => {
    if (text.trim() === '') return;
    let over = false;
    const timer = setTimeout(() => {
      documentsOf(text).then(
        (docs) => over || say({ of: text, docs }),
        (error) => over || say({ of: text, error }),
      );
    }, 250);
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [text]);
  const open = async (file: File | undefined) => {
    if (!file) return;
    if (file.size > longest) return say({ error: new Error(t('tooLong', { bytes: bytes(longest) })) });
    type(await file.text());
  };
  const { docs, error } = said.of === text || said.of === undefined ? said : {};
  const command = (documents: Sent) => ({ insert: coll, documents, ordered: false });
  const some: Sent = docs && docs.length > shown ? new Code(`[\n    ${docs.slice(0, shown).map((d) => shell(d, '    ')).join(',\n    ')},\n    /* ${docs.length - shown} more */\n  ]`) : (docs ?? []);
  /** Where some went in, the others alone are what can be inserted next. */
  const all = (reply: Doc) => {
    const { n, writeErrors } = plain(reply);
    if (!writeErrors?.length) return;
    if (n > 0) {
      begin(true);
      type(write(writeErrors.map((e: { index: number }) => docs![e.index]!), 'jsonl'));
    }
    throw new Error(t('inserted', { n, of: docs!.length, error: writeErrors[0].errmsg }));
  };
  return (
    <Dialog title={t('importTitle')} close={() => left(false)}>
      <div class="stack">
        <p class="small quiet">{t('importHint', { n: most })}</p>
        <Field label={t('file')}>
          <input type="file" accept=".json,.jsonl,.ndjson,.csv" onChange={(e) => void open(e.currentTarget.files?.[0])} />
        </Field>
        <Field label={t('orText')}>
          <textarea class="code-block" rows={6} value={text} spellcheck={false} onInput={(e) => type(e.currentTarget.value)} />
        </Field>
        {error !== undefined && <Failure error={error} />}
        {docs && <p role="status">{t('toInsert', { n: docs.length })}</p>}
        <Act db={db} command={command(docs ?? [])} shown={command(some)} ready={docs !== undefined && docs.length > 0} due={0} label={t('import')} close={left} check={all} />
      </div>
    </Dialog>
  );
}
