// What documents of a collection must be like: seen, changed, and how many would not fit, before anything changes.
import { useState } from 'preact/hooks';
import { ask, run } from '../api';
import type { Collection } from '../collections';
import { Doc, json, shell, type Raw, type Sent } from '../ejson';
import { t } from '../i18n';
import { Editor, useRead } from '../ui/editor';
import { Failure, Field } from '../ui/parts';
import { Tree } from '../ui/tree';
import { Act } from './act';

const levels = ['strict', 'moderate', 'off'] as const;
const actions = ['error', 'warn', 'errorAndLog'] as const;

/** How many documents do not fit, and some of them. */
interface Misfits {
  of: string;
  n: number;
  some: Doc[];
}

const shown = 3;
/** How long the documents are counted, in milliseconds. */
const patience = 60_000;

async function misfits(db: string, coll: string, validator: Raw): Promise<Misfits> {
  const not: Sent = { $nor: [validator] };
  const [counted, found] = await Promise.all([
    ask(db, { aggregate: coll, pipeline: [{ $match: not }, { $count: 'n' }], cursor: {}, maxTimeMS: patience }),
    run(db, { find: coll, filter: not, limit: shown, singleBatch: true, maxTimeMS: patience }),
  ]);
  return { of: json(validator), n: counted.cursor.firstBatch[0]?.n ?? 0, some: (found.get('cursor') as Doc).get('firstBatch') as Doc[] };
}

export function Validator({ db, coll, about, fields, close }: { db: string; coll: string; about: Collection; fields: string[]; close: (changed: boolean) => void }) {
  const is = { level: String(about.options.validationLevel ?? 'strict'), action: String(about.options.validationAction ?? 'error') };
  const [text, type] = useState(shell(about.validator ?? new Doc()));
  const [level, setLevel] = useState(is.level);
  const [action, setAction] = useState(is.action);
  const [found, find] = useState<Misfits>();
  const [error, fail] = useState<unknown>();
  const [counting, count] = useState(false);
  const said = useRead(text);
  const { value } = said;
  const known = value && found?.of === json(value) ? found : undefined;
  const check = async () => {
    count(true);
    fail(undefined);
    await misfits(db, coll, value!).then(find, fail);
    count(false);
  };
  const choice = (label: string, now: string, all: readonly string[], set: (v: string) => void) => (
    <Field label={label}>
      <select class="mono" value={now} onChange={(e) => set(e.currentTarget.value)}>
        {all.map((v) => (
          <option key={v}>{v}</option>
        ))}
      </select>
    </Field>
  );
  return (
    <section class="card stack" aria-label={t('validator')}>
      <p class="quiet">{t('validatorLead')}</p>
      <Editor label={t('validator')} kind="filter" fields={fields} value={text} said={said} onInput={type} />
      <div class="grid2">
        {choice(t('validationLevel'), level, levels, setLevel)}
        {choice(t('validationAction'), action, actions, setAction)}
      </div>
      <button type="button" disabled={!value || counting} onClick={check}>
        {counting ? `${t('counting')}…` : t('whatFails')}
      </button>
      {error !== undefined && <Failure error={error} />}
      {known && (
        <div role="status">
          <p class={known.n ? 'due' : ''}>{t('wouldFail', { n: known.n })}</p>
          {known.some.map((d, i) => (
            <Tree key={i} doc={d} />
          ))}
        </div>
      )}
      <Act db={db} command={{ collMod: coll, validator: value ?? {}, validationLevel: level, validationAction: action }} ready={known !== undefined} due={0} label={t('setValidator')} close={close} />
    </section>
  );
}
