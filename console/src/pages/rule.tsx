// Forms that make and change rules. What would happen is shown before anything does.
import { useEffect, useState } from 'preact/hooks';
import type { Sent } from '../ejson';
import { bytes, t } from '../i18n';
import { changing, dryRun, type Forecast, making, type Rule } from '../rules';
import { Forecast as Chart } from '../ui/chart';
import { Dialog, Failure, Field, Segments } from '../ui/parts';
import { Act } from './act';

export type Change = 'pause' | 'resume' | 'stop' | 'change';

const units = { second: 1, minute: 60, hour: 3600, day: 86400 };
type Unit = keyof typeof units;

/** The largest unit that gives a whole number. */
const inUnit = (seconds: number): [string, Unit] => {
  const unit = (['day', 'hour', 'minute'] as const).find((u) => seconds >= units[u] && seconds % units[u] === 0) ?? 'second';
  return [String(seconds / units[unit]), unit];
};

/** How long after; undefined while it is no whole number of seconds. */
function useAfter(seconds: number) {
  const [[n, unit], set] = useState(inUnit(seconds));
  const value = /^\d+$/.test(n) && Number(n) * units[unit] <= 2147483647 ? Number(n) * units[unit] : undefined;
  const fields = (
    <div class="grid2">
      <Field label={t('after')}>
        <input inputMode="numeric" value={n} aria-invalid={value === undefined} onInput={(e) => set([e.currentTarget.value.trim(), unit])} />
      </Field>
      <Field label={t('unit')}>
        <select value={unit} onChange={(e) => set([n, e.currentTarget.value as Unit])}>
          {(Object.keys(units) as Unit[]).map((u) => (
            <option key={u} value={u}>
              {t(u)}
            </option>
          ))}
        </select>
      </Field>
    </div>
  );
  return [value, fields] as const;
}

/** What a dry run has said of a command, undefined until it has. */
function useDryRun(db: string, command: Sent | undefined) {
  const [said, say] = useState<{ of?: string; forecast?: Forecast; note?: string; error?: unknown }>({});
  const key = command ? JSON.stringify([db, command]) : undefined;
  useEffect(() => {
    if (!key) return say({});
    let over = false;
    const timer = setTimeout(() => {
      dryRun(db, command).then(
        (r) => over || say({ of: key, ...r }),
        (error) => over || say({ of: key, error }),
      );
    }, 350);
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [key]);
  return said.of === key ? said : {};
}

function Outcome({ said }: { said: { forecast?: Forecast; note?: string; error?: unknown } }) {
  const f = said.forecast;
  return (
    <section aria-label={t('dryRun')} aria-live="polite" class="stack">
      {said.error !== undefined && <Failure error={said.error} act />}
      {!f && !said.error && <p class="notice">{t('dryRunWaits')}</p>}
      {f && (
        <>
          <p class="outcome">
            <strong class={f.due ? 'due num' : 'num'}>{t('nDocuments', { n: f.due })}</strong> {t('atOnce')}
            {f.dueBytes ? <span class="quiet small">{bytes(f.dueBytes)}</span> : null}
            {f.never ? <span class="quiet small">{t('never', { n: f.never })}</span> : null}
          </p>
          <Chart bars={f.days} due={f.due} later={f.laterThanDays} daily />
          {said.note && <p class="notice warn">{said.note}</p>}
        </>
      )}
    </section>
  );
}

export function MakeRule({ db: givenDB, coll: givenColl, close }: { db?: string; coll?: string; close: (made: boolean) => void }) {
  const [db, setDB] = useState(givenDB ?? '');
  const [coll, setColl] = useState(givenColl ?? '');
  const [kind, setKind] = useState<'date' | 'lastWrite'>('date');
  const [field, setField] = useState('');
  const [seconds, after] = useAfter(86400);
  const complete = db !== '' && coll !== '' && (kind === 'lastWrite' || field !== '') && seconds !== undefined;
  const said = useDryRun(db, complete ? making(coll, kind, field, seconds, true) : undefined);
  return (
    <Dialog title={t('makeTitle')} close={() => close(false)}>
      <div class="stack">
        {!givenColl && (
          <div class="grid2">
            <Field label={t('database')}>
              <input value={db} onInput={(e) => setDB(e.currentTarget.value)} />
            </Field>
            <Field label={t('collection')}>
              <input value={coll} onInput={(e) => setColl(e.currentTarget.value)} />
            </Field>
          </div>
        )}
        <div>
          <Segments label={t('kind')} value={kind} options={[['date', t('kindDate')], ['lastWrite', t('kindWrite')]]} choose={setKind} />
        </div>
        {kind === 'date' && (
          <Field label={t('field')}>
            <input class="mono" value={field} spellcheck={false} autocapitalize="off" onInput={(e) => setField(e.currentTarget.value)} />
          </Field>
        )}
        {after}
        <Outcome said={said} />
        <Act db={db} command={making(coll, kind, field, seconds ?? 0)} ready={said.forecast !== undefined} due={said.forecast?.due ?? 0} label={t('makeRule')} close={close} />
      </div>
    </Dialog>
  );
}

export function ChangeRule({ rule, change, close }: { rule: Rule; change: Change; close: (changed: boolean) => void }) {
  const title = t(`${change}Title`, { rule: rule.name });
  const [seconds, after] = useAfter(Math.max(0, rule.seconds));
  const due = rule.forecast.due;
  const said = useDryRun(rule.db, change === 'change' && seconds !== undefined ? changing(rule, { seconds }, true) : undefined);
  const to = { pause: { paused: true }, resume: { paused: false }, stop: { seconds: 'off' as const }, change: { seconds: seconds ?? 0 } }[change];
  const act = { db: rule.db, command: changing(rule, to), close };
  return (
    <Dialog title={title} close={() => close(false)}>
      <div class="stack">
        {change === 'change' ? (
          <>
            {after}
            <Outcome said={said} />
            <Act {...act} ready={said.forecast !== undefined} due={said.forecast?.due ?? 0} label={t('changeRule')} />
          </>
        ) : (
          <>
            <p>{t(`${change}Text`, { n: due })}</p>
            <Act {...act} ready due={change === 'resume' ? due : 0} label={t(change)} />
          </>
        )}
      </div>
    </Dialog>
  );
}
