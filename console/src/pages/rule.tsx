// Forms that make and change rules. What would happen is shown before anything does.
import { useEffect, useState } from 'preact/hooks';
import type { Sent } from '../ejson';
import { bytes, number, span, t } from '../i18n';
import { changing, dryRun, type Forecast, type Limits, making, type Rule } from '../rules';
import { Forecast as Chart } from '../ui/chart';
import { Dialog, Failure, Field, Segments } from '../ui/parts';
import { Act } from './act';

export type Change = 'pause' | 'resume' | 'stop' | 'change' | 'limits';

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
          <Chart bars={f.bars.days} due={f.due} later={f.later.days} daily />
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

export function ChangeRule({ rule, change, limits, close }: { rule: Rule; change: Change; limits: Limits; close: (changed: boolean) => void }) {
  return (
    <Dialog title={t(`${change}Title`, { rule: rule.name })} close={() => close(false)}>
      <div class="stack">
        {change === 'change' ? (
          <ChangeTime rule={rule} close={close} />
        ) : change === 'limits' ? (
          <ChangeLimits rule={rule} limits={limits} close={close} />
        ) : (
          <>
            <p>{t(`${change}Text`, { n: rule.forecast.due })}</p>
            <Act
              db={rule.db} command={changing(rule, { pause: { paused: true }, resume: { paused: false }, stop: { seconds: 'off' as const } }[change])}
              ready due={change === 'resume' ? rule.forecast.due : 0} label={t(change)} close={close}
            />
          </>
        )}
      </div>
    </Dialog>
  );
}

type Form = { rule: Rule; close: (changed: boolean) => void };

function ChangeTime({ rule, close }: Form) {
  const [seconds, after] = useAfter(Math.max(0, rule.seconds));
  const said = useDryRun(rule.db, seconds !== undefined ? changing(rule, { seconds }, true) : undefined);
  return (
    <>
      {after}
      <Outcome said={said} />
      <Act db={rule.db} command={changing(rule, { seconds: seconds ?? 0 })} ready={said.forecast !== undefined} due={said.forecast?.due ?? 0} label={t('changeRule')} close={close} />
    </>
  );
}

/** A limit as it was typed: null for none, undefined for what is no whole number above 0. */
const most = (text: string) => (text === '' ? null : /^[1-9]\d{0,17}$/.test(text) ? Number(text) : undefined);

/** How many seconds of a day a window is open. */
function openFor(w: Limits['window']): number {
  const [from = 0, to = 0] = w ? [w.from, w.to].map((at) => Number(at.slice(0, 2)) * 3600 + Number(at.slice(3)) * 60) : [];
  return (to - from + 86400) % 86400 || 86400;
}

function ChangeLimits({ rule, limits: is, close }: Form & { limits: Limits }) {
  const [documents, setDocuments] = useState(String(is.budget?.documentsPerSecond ?? ''));
  const [size, setSize] = useState(String(is.budget?.bytesPerSecond ?? ''));
  const [from, setFrom] = useState(is.window?.from ?? '');
  const [until, setUntil] = useState(is.window?.to ?? '');
  const [zone, setZone] = useState(is.window?.timeZone ?? '');
  const [visibility, see] = useState<NonNullable<Limits['visibility']>>(rule.immediate ? 'immediate' : 'deferred');
  const [documentsPerSecond, bytesPerSecond] = [most(documents), most(size)];
  const right = documentsPerSecond !== undefined && bytesPerSecond !== undefined && (from === '') === (until === '');
  const open = from === '' ? null : { from, to: until, timeZone: zone || null };
  // What stays as it is is not said: a rule may have it from its collection.
  const limits: Limits = {
    ...((visibility === 'immediate') !== rule.immediate && { visibility }),
    ...((documentsPerSecond !== (is.budget?.documentsPerSecond ?? null) || bytesPerSecond !== (is.budget?.bytesPerSecond ?? null)) && { budget: { documentsPerSecond, bytesPerSecond } }),
    ...((from !== (is.window?.from ?? '') || until !== (is.window?.to ?? '') || zone !== (is.window?.timeZone ?? '')) && { window: open }),
  };
  const said = useDryRun(rule.db, right && Object.keys(limits).length > 0 ? changing(rule, { limits }, true) : undefined);
  const f = said.forecast;
  const busiest = f && Math.max(...f.bars.days.map((b) => b.n));
  const inADay = documentsPerSecond ? documentsPerSecond * openFor(open) : Infinity;
  const lasts = f && Math.max(documentsPerSecond ? f.due / documentsPerSecond : 0, bytesPerSecond ? (f.dueBytes ?? 0) / bytesPerSecond : 0);
  const field = (label: string, value: string, set: (v: string) => void, more: object = {}) => (
    <Field label={label}>
      <input value={value} spellcheck={false} autocapitalize="off" onInput={(e) => set(e.currentTarget.value.trim())} {...more} />
    </Field>
  );
  const whole = (n: number | null | undefined) => ({ inputMode: 'numeric', placeholder: t('noLimit'), 'aria-invalid': n === undefined });
  return (
    <>
      <div class="grid2">
        {field(t('docsPerSecond'), documents, setDocuments, whole(documentsPerSecond))}
        {field(t('bytesPerSecond'), size, setSize, whole(bytesPerSecond))}
      </div>
      <div class="grid2">
        {field(t('windowFrom'), from, setFrom, { type: 'time' })}
        {field(t('windowTo'), until, setUntil, { type: 'time' })}
      </div>
      <div class="grid2">
        {field(t('timeZone'), zone, setZone, { placeholder: 'UTC', disabled: from === '' })}
        <Field label={t('visibility')}>
          <select value={visibility} onChange={(e) => see(e.currentTarget.value as 'immediate')}>
            {(['deferred', 'immediate'] as const).map((v) => (
              <option key={v} value={v}>
                {t(v)}
              </option>
            ))}
          </select>
        </Field>
      </div>
      <Outcome said={said} />
      {lasts !== undefined && lasts > 0 && <p class="notice">{t('paceOfDue', { span: span(lasts) })}</p>}
      {busiest !== undefined && busiest > inADay && <p class="notice warn">{t('fallsBehind', { n: busiest, most: number(inADay) })}</p>}
      <Act db={rule.db} command={changing(rule, { limits })} ready={f !== undefined} due={0} label={t('setLimits')} close={close} />
    </>
  );
}
