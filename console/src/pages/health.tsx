// What is wrong, and what to do: what mayfly doctor says.
import { examine } from '../api';
import { number, t, time, type Key } from '../i18n';
import { Copied, Failure, Figure, useAnswer } from '../ui/parts';

interface Finding {
  check: string;
  severity: 'critical' | 'warning' | 'notice';
  where: string;
  text: string;
  do: string;
  run: string[];
}

const severities = ['critical', 'warning', 'notice'] as const;

export function Health() {
  const found = useAnswer<{ at: Date; what: string; findings: Finding[] }>(examine, []);
  const said = found.value;
  return (
    <>
      <div class="head">
        <div>
          <h1>{t('healthTitle')}</h1>
          <p>{t('healthLead')}</p>
        </div>
        <button type="button" disabled={found.asking} onClick={found.again}>
          {found.asking ? `${t('examining')}…` : t('lookAgain')}
        </button>
      </div>
      {found.error !== undefined && <Failure error={found.error} again={found.again} />}
      {said && (
        <>
          <section class="card" aria-label={t('health')}>
            <p class="small quiet">{t('lookedAt', { what: said.what, time: time(said.at) })}</p>
            <dl class="figures severities">
              {severities.map((s) => {
                const n = said.findings.filter((f) => f.severity === s).length;
                return <Figure key={s} name={t(s)} value={number(n)} hint={t(`${s}Hint`)} due={n > 0 && s !== 'notice'} />;
              })}
            </dl>
            {said.findings.length === 0 && <p role="status">{t('nothingWrong')}</p>}
          </section>
          {said.findings.length > 0 && (
            <ul class="findings">
              {said.findings.map((f, i) => (
                <One key={`${f.check} ${f.where} ${i}`} finding={f} />
              ))}
            </ul>
          )}
        </>
      )}
    </>
  );
}

function One({ finding: f }: { finding: Finding }) {
  return (
    <li class={`card finding is-${f.severity}`}>
      <div class="card-head">
        <h2>{t(`check-${f.check}` as Key)}</h2>
        <span class={`tag is-${f.severity}`}>{t(f.severity)}</span>
      </div>
      <p class="mono small quiet">{f.where}</p>
      <p lang="en">{f.text}</p>
      <p lang="en">
        <span class="hidden">{t('whatToDo')}: </span>→ {f.do}
      </p>
      {f.run.length > 0 && <Copied title={t('whatToDo')} text={f.run.join('\n')} />}
    </li>
  );
}
