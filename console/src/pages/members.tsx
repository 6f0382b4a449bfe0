// The members of a replica set.
import { useState } from 'preact/hooks';
import { ask, isRefused } from '../api';
import { number, span, t, time } from '../i18n';
import { Dialog, Failure, Figure, seldom, useAnswer } from '../ui/parts';
import { Table } from '../ui/table';
import { Act } from './act';

interface Member {
  name: string;
  state: string;
  up: boolean;
  self: boolean;
  behind?: number;
  uptime: number;
  ping?: number;
  elected?: Date;
  message: string;
  /** Of the configuration, where one may see it. */
  config?: { priority: number; votes: number; hidden: boolean; delay: number };
}

interface Status {
  term: number;
  majority: number;
  voters: number;
  members: Member[];
}

async function status(passive: boolean): Promise<Status> {
  const s = await ask('admin', { replSetGetStatus: 1 }, passive);
  const config = await ask('admin', { replSetGetConfig: 1 }, passive).then((r) => r.config, (e) => {
    if (isRefused(e)) return undefined;
    throw e;
  });
  // eslint-disable-next-line -- members as replSetGetStatus and replSetGetConfig show them
  const of = new Map<string, any>((config?.members ?? []).map((m: any) => [m.host, m]));
  // eslint-disable-next-line -- see above
  const newest = Math.max(...s.members.map((m: any) => m.optimeDate?.getTime() ?? 0));
  return {
    term: s.term, majority: s.majorityVoteCount, voters: s.votingMembersCount,
    // eslint-disable-next-line -- see above
    members: s.members.map((m: any): Member => {
      const c = of.get(m.name);
      return {
        name: m.name, state: m.stateStr, up: m.health === 1, self: m.self === true, uptime: m.uptime ?? 0, ping: m.pingMs, elected: m.electionDate, message: m.lastHeartbeatMessage ?? '',
        behind: m.health === 1 && m.optimeDate ? (newest - m.optimeDate.getTime()) / 1000 : undefined,
        config: c && { priority: c.priority ?? 1, votes: c.votes ?? 1, hidden: c.hidden === true, delay: c.secondaryDelaySecs ?? 0 },
      };
    }),
  };
}

/** How far behind, in seconds, a member is of concern. */
const farBehind = 10;
const isFar = (m: Member) => m.behind! - (m.config?.delay ?? 0) >= farBehind;

export function Members() {
  const found = useAnswer(status, [], seldom);
  const [stepping, step] = useState(false);
  const s = found.value;
  const primary = s?.members.find((m) => m.state === 'PRIMARY' && m.up);
  return (
    <>
      {found.error !== undefined && <Failure error={found.error} again={found.again} />}
      {s && (
        <>
          <section class="card" aria-label={t('primary')}>
            <dl class="figures flush">
              <Figure name={t('primary')} value={primary ? <span class="mono name">{primary.name}</span> : t('noPrimaryNow')} hint={primary?.elected && t('electedAt', { time: time(primary.elected) })} due={!primary} />
              <Figure name={t('term')} value={number(s.term)} />
              <Figure name={t('membersUp')} value={number(s.members.filter((m) => m.up).length)} hint={t('ofMembers', { n: s.members.length })} due={s.members.some((m) => !m.up)} />
              <Figure name={t('majority')} value={number(s.majority)} hint={t('ofVoters', { n: s.voters })} />
            </dl>
          </section>
          <section class="card">
            <div class="card-head">
              <h2>{t('members')}</h2>
              {primary?.self && (
                <button type="button" onClick={() => step(true)}>
                  {t('stepDown')}
                </button>
              )}
            </div>
            <Table
              label={t('members')} rows={s.members} id={(m) => m.name}
              columns={[
                [t('member'), (m) => (
                  <>
                    <span class="mono">{m.name}</span>
                    {m.self && <span class="quiet small"> · {t('thisOne')}</span>}
                    {m.message && <div class="small due">{m.message}</div>}
                  </>
                )],
                [t('state'), (m) => (
                  <>
                    <span class={`tag ${m.up ? (m.state === 'PRIMARY' || m.state === 'SECONDARY' ? '' : 'paused') : 'held'}`}>{m.state}</span>
                    <div class="quiet small">{[m.config?.hidden && t('hiddenMember'), m.config?.delay ? t('delayed', { span: span(m.config.delay) }) : ''].filter(Boolean).join(', ')}</div>
                  </>
                )],
                [t('lag'), (m) => (m.behind === undefined || m.state === 'PRIMARY' ? '–' : <span class={isFar(m) ? 'due' : ''}>{span(m.behind)}</span>), 'right num'],
                [t('priority'), (m) => (m.config ? number(m.config.priority) : '–'), 'right num'],
                [t('votes'), (m) => (m.config ? number(m.config.votes) : '–'), 'right num'],
                [t('uptime'), (m) => (m.up ? span(m.uptime) : '–'), 'right num'],
                [t('ping'), (m) => (m.up && m.ping !== undefined ? t('millis', { n: m.ping }) : '–'), 'right num'],
              ]}
            />
          </section>
        </>
      )}
      {stepping && (
        <Dialog title={t('stepDownTitle')} close={() => step(false)}>
          <div class="stack">
            <p>{t('stepDownText')}</p>
            <Act
              db="admin" command={{ replSetStepDown: 60 }} ready due={0} label={t('stepDown')}
              close={(done) => {
                step(false);
                if (done) found.again();
              }}
            />
          </div>
        </Dialog>
      )}
    </>
  );
}
