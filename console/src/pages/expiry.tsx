// What leaves, and when: all rules, or those of one collection.
import { useState } from 'preact/hooks';
import { bytes, compact, span, t, time } from '../i18n';
import { archivedBy, type Archived, type Forecast, type Horizon, horizons, type Limits, limitsOf, rulesOf, type Rule, says, searched, together, withRules } from '../rules';
import { to } from '../route';
import { Forecast as Chart, Spark } from '../ui/chart';
import { Failure, Figure, seldom, Segments, useAnswer } from '../ui/parts';
import { Table } from '../ui/table';
import { ChangeRule, MakeRule, type Change } from './rule';

export function Expiry({ db, coll }: { db?: string; coll?: string }) {
  const found = useAnswer(async (passive) => (db && coll ? { all: [[db, coll] as [string, string]], more: false } : withRules(passive)), [db, coll]);
  const [making, make] = useState(false);
  const [changes, changed] = useState(0);
  const again = () => {
    found.again();
    changed((n) => n + 1);
  };
  return (
    <>
      <div class="head">
        <div>
          {coll && (
            <p class="crumbs">
              <a href={to('expiry')}>{t('allRules')}</a>
            </p>
          )}
          <h1 class={coll ? 'mono' : ''}>{coll ? `${db}.${coll}` : t('expiryTitle')}</h1>
          {!coll && <p>{t('expiryLead')}</p>}
        </div>
        <button class="primary" type="button" onClick={() => make(true)}>
          {t('newRule')}
        </button>
      </div>
      {found.error !== undefined && <Failure error={found.error} again={found.again} />}
      {found.value ? <Rules collections={found.value.all} more={found.value.more} single={coll !== undefined} round={changes} again={again} /> : !found.error && <p class="quiet">{t('loading')}…</p>}
      {making && (
        <MakeRule
          db={db}
          coll={coll}
          close={(made) => {
            make(false);
            if (made) again();
          }}
        />
      )}
    </>
  );
}

function Rules({ collections, more, single, round, again }: { collections: [string, string][]; more: boolean; single: boolean; round: number; again: () => void }) {
  const [horizon, look] = useState<Horizon>('hours');
  const stats = useAnswer(async (passive) => (await Promise.all(collections.map(([db, coll]) => rulesOf(db, coll, passive)))).flat(), [collections, round], seldom);
  if (!stats.value) return stats.error !== undefined ? <Failure error={stats.error} again={stats.again} /> : <p class="quiet">{t('loading')}…</p>;
  const rules = stats.value;
  const all = rules.length === 1 ? rules[0]!.forecast : together(rules.map((r) => r.forecast), Date.now());
  return (
    <>
      {stats.error !== undefined && <Failure error={stats.error} again={stats.again} />}
      {rules.length === 0 ? (
        <div class="card empty">{t('noRules')}</div>
      ) : (
        <>
          <section class="card" aria-label={t('forecast')}>
            <Figures f={all} rules={rules} horizon={horizon} look={look} />
            <OfHorizon f={all} horizon={horizon} />
          </section>
          {single ? rules.map((r) => <OneRule key={r.name} rule={r} alone={rules.length === 1} horizon={horizon} again={again} />) : <All rules={rules} more={more} />}
        </>
      )}
    </>
  );
}

const OfHorizon = ({ f, horizon }: { f: Forecast; horizon: Horizon }) => <Chart bars={f.bars[horizon]} due={f.due} later={f.later[horizon]} daily={horizon === 'days'} />;

function Figures({ f, rules, horizon, look }: { f: Forecast; rules: Rule[]; horizon: Horizon; look: (h: Horizon) => void }) {
  const behind = Math.max(...rules.map((r) => r.lag));
  const rate = rules.reduce((n, r) => n + r.rate, 0);
  const paced = f.due > 0;
  return (
    <>
      <div class="card-head">
        <h2>{t('forecast')}</h2>
        <Segments label={t('horizon')} value={horizon} options={horizons.map((h) => [h, t(h)])} choose={look} />
      </div>
      <dl class="figures">
        <Figure lead name={t('documents')} value={compact(f.bars[horizon].reduce((n, b) => n + b.n, 0))} hint={t('dueIn', { span: t(horizon) })} />
        <Figure name={t('dueNow')} value={compact(f.due)} hint={t('dueNowHint')} due={paced} />
        <Figure name={t('behind')} value={paced ? span(behind) : '–'} hint={t('behindHint')} />
        <Figure name={t('rate')} value={compact(rate)} hint={t('rateHint')} />
        <Figure name={t('nextDue')} value={f.next ? until(f.next) : '–'} hint={f.next ? time(f.next) : t('nobodyNext')} />
      </dl>
    </>
  );
}

const until = (at: Date) => t('inSpan', { span: span((at.getTime() - Date.now()) / 1000) });

const stateOf = (r: Rule) => (r.paused ? 'paused' : r.skipped.length ? 'held' : 'active');

const State = ({ rule }: { rule: Rule }) => <span class={`tag ${stateOf(rule)}`}>{t(stateOf(rule))}</span>;

function All({ rules, more }: { rules: Rule[]; more: boolean }) {
  return (
    <section class="card">
      <div class="card-head">
        <h2>{t('rules')}</h2>
        {more && <span class="quiet small">{t('searched', { n: searched })}</span>}
      </div>
      <Table
        label={t('rules')} rows={rules} id={(r) => `${r.db}.${r.coll}.${r.name}`}
        columns={[
          [t('collection'), (r) => [<a class="mono" href={to('expiry', r.db, r.coll)}>{`${r.db}.${r.coll}`}</a>, <div class="quiet small">{says(r)}</div>]],
          [t('state'), (r) => [<State rule={r} />, !r.paused && r.skipped.map((s) => <div key={s} class="due small">{s}</div>)]],
          [t('dueNow'), (r) => <span class={r.forecast.due ? 'due' : ''}>{compact(r.forecast.due)}</span>, 'right num'],
          [t('behind'), (r) => (r.forecast.due ? span(r.lag) : '–'), 'right num'],
          [t('rate'), (r) => compact(r.rate), 'right num'],
          [t('hours'), (r) => <Spark bars={r.forecast.bars.hours} />],
          [t('nextDue'), (r) => (r.forecast.next ? until(r.forecast.next) : '–'), 'right num'],
        ]}
      />
    </section>
  );
}

function OneRule({ rule: r, alone, horizon, again }: { rule: Rule; alone: boolean; horizon: Horizon; again: () => void }) {
  const [change, setChange] = useState<Change>();
  const known = useAnswer(async () => {
    const limits = await limitsOf(r);
    return { limits, archived: limits.archive && (await archivedBy(r).catch(() => undefined)) };
  }, [r.db, r.coll, r.name, r.lastPass]);
  const limits = known.value?.limits;
  return (
    <section class="card" aria-label={r.name}>
      <div class="card-head">
        <div>
          <h2>{says(r)}</h2>
          <div class="quiet small">
            <span class="mono">{r.name}</span> · <State rule={r} />
          </div>
        </div>
        <div class="actions">
          <button type="button" onClick={() => setChange(r.paused ? 'resume' : 'pause')}>
            {t(r.paused ? 'resume' : 'pause')}
          </button>
          <button type="button" onClick={() => setChange('change')}>
            {t('change')}
          </button>
          <button type="button" disabled={!limits} onClick={() => setChange('limits')}>
            {t('limits')}
          </button>
          <button type="button" class="danger" onClick={() => setChange('stop')}>
            {t('stop')}
          </button>
        </div>
      </div>
      <div class="stack">
        {(r.skipped.length > 0 || r.note) && (
          <div class="notice warn">
            {r.skipped.length > 0 && t('why')}
            <ul>
              {[...r.skipped, ...(r.note ? [r.note] : [])].map((s) => (
                <li key={s}>{s}</li>
              ))}
            </ul>
          </div>
        )}
        {!alone && <OfHorizon f={r.forecast} horizon={horizon} />}
        <dl class="figures">
          <Figure name={t('removedSoFar')} value={compact(r.removed)} />
          <Figure name={t('lastPass')} value={r.lastPass ? time(r.lastPass, { timeStyle: 'medium' }) : '–'} />
          <Figure name={t('visibility')} value={t(r.immediate ? 'immediate' : 'deferred')} />
          {limits && <Held limits={limits} />}
        </dl>
        {limits?.archive && <Archive to={limits.archive.to} archived={known.value!.archived} />}
      </div>
      {change && (
        <ChangeRule
          rule={r}
          change={change}
          limits={limits ?? {}}
          close={(changed) => {
            setChange(undefined);
            if (changed) {
              known.again();
              again();
            }
          }}
        />
      )}
    </section>
  );
}


function Held({ limits: { budget, window: open } }: { limits: Limits }) {
  const most = [budget?.documentsPerSecond && t('nDocuments', { n: budget.documentsPerSecond }), budget?.bytesPerSecond && bytes(budget.bytesPerSecond)].filter(Boolean).join(', ');
  return (
    <>
      <Figure name={t('budget')} value={most ? t('aSecond', { what: most }) : t('noLimit')} />
      <Figure name={t('window')} value={open ? `${open.from} – ${open.to}` : t('atAnyTime')} hint={open?.timeZone ?? undefined} />
    </>
  );
}

function Archive({ to: place, archived: a }: { to: string; archived?: Archived }) {
  return (
    <p>
      {t('archive')} <span class="mono small">{place}</span>
      {a && (
        <span class="quiet small num">
          {` · ${t('nDocuments', { n: a.documents })} · ${t('archiveObjects', { n: a.objects, bytes: bytes(a.bytes) })}`}
          {a.last && ` · ${t('archivedLast', { time: time(a.last) })}`}
        </span>
      )}
    </p>
  );
}
