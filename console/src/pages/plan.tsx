// How a query was run, as a tree of its stages.
import { Doc, plain, type Value } from '../ejson';
import { compact, number, t } from '../i18n';

interface Stage {
  name: string;
  about: string[];
  returned?: number;
  examined?: number;
  keys?: number;
  millis?: number;
  inputs: Stage[];
}

/** The stages below one of explain's documents, of whatever command. */
// eslint-disable-next-line -- what explain shows has many shapes
function stageOf(d: any): Stage {
  const of = d.executionStages ?? d;
  const inputs = [...(of.inputStage ? [of.inputStage] : []), ...(of.inputStages ?? []), ...(of.shards ?? []), ...(of.outerStage ? [of.outerStage, of.innerStage] : [])];
  return {
    name: of.stage ?? of.shardName ?? '?',
    about: [of.indexName, of.direction === 'backward' && 'backward', of.isMultiKey && 'multikey', of.isCovered && 'covered'].filter(Boolean),
    returned: of.nReturned, examined: of.docsExamined, keys: of.keysExamined ?? of.totalKeysExamined, millis: of.executionTimeMillisEstimate ?? of.executionTimeMillis, inputs: inputs.map(stageOf),
  };
}

/** The roots of an explain's reply: one for find, a stage after the other for aggregate. */
function rootsOf(plan: Doc): Stage[] {
  const all = plain(plan);
  if (all.stages) {
    // eslint-disable-next-line -- see above
    return all.stages.map((s: any) => {
      const [name] = Object.keys(s);
      if (name === '$cursor') return stageOf(s.$cursor.executionStats?.executionStages ?? s.$cursor.queryPlanner.winningPlan);
      return { name: name!, about: [], returned: s.nReturned, millis: s.executionTimeMillisEstimate, inputs: [] };
    });
  }
  if (all.shards && !all.queryPlanner) {
    return Object.entries(all.shards).map(([shard, s]) => ({ name: shard, about: [], inputs: rootsOf(wrap(s)) }));
  }
  return [stageOf(all.executionStats?.executionStages ?? all.queryPlanner?.winningPlan ?? {})];
}

const wrap = (v: unknown) => new Doc(Object.entries(v as Record<string, Value>));

export function Plan({ plan, close }: { plan: Doc; close: () => void }) {
  const roots = rootsOf(plan);
  const top = plain(plan).executionStats;
  return (
    <section class="card" aria-label={t('explain')}>
      <div class="card-head">
        <h2>{t('explain')}</h2>
        <button type="button" class="plain" onClick={close}>
          {t('close')}
        </button>
      </div>
      {top && (
        <p class="quiet small">
          {t('planSums', { returned: number(top.nReturned ?? 0), keys: number(top.totalKeysExamined ?? 0), docs: number(top.totalDocsExamined ?? 0), millis: number(top.executionTimeMillis ?? 0) })}
        </p>
      )}
      <ul class="plan">
        {roots.map((s, i) => (
          <Node key={i} stage={s} />
        ))}
      </ul>
    </section>
  );
}

const Node = ({ stage: s }: { stage: Stage }) => (
  <li>
    <div class={s.name === 'COLLSCAN' || s.name === 'SORT' ? 'stage warn' : 'stage'}>
      <strong>{s.name}</strong> {s.about.length > 0 && <span class="mono">{s.about.join(' ')}</span>}
      <span class="quiet small">
        {s.returned !== undefined && ` ${t('planReturned', { n: compact(s.returned) })}`}
        {s.keys !== undefined && ` · ${t('planKeys', { n: compact(s.keys) })}`}
        {s.examined !== undefined && ` · ${t('planDocs', { n: compact(s.examined) })}`}
        {s.millis !== undefined && ` · ${number(s.millis)} ms`}
      </span>
    </div>
    {s.inputs.length > 0 && (
      <ul>
        {s.inputs.map((x, i) => (
          <Node key={i} stage={x} />
        ))}
      </ul>
    )}
  </li>
);
