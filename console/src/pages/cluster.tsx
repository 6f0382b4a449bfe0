// Who serves the data, and where it lies: the members of a set, or the shards of a cluster.
import { ask } from '../api';
import { t } from '../i18n';
import { Failure, useAnswer } from '../ui/parts';
import { Members } from './members';
import { OneCollection, Shards } from './shards';

type Kind = { kind: 'router' | 'alone' } | { kind: 'set'; set: string };

async function kindOf(): Promise<Kind> {
  const hello = await ask('admin', { hello: 1 }, true);
  if (hello.msg === 'isdbgrid') return { kind: 'router' };
  return hello.setName ? { kind: 'set', set: hello.setName } : { kind: 'alone' };
}

export function Cluster({ db, coll }: { db?: string; coll?: string }) {
  const found = useAnswer(kindOf, []);
  const is = found.value;
  if (is?.kind === 'router' && db && coll) return <OneCollection ns={`${db}.${coll}`} />;
  return (
    <>
      <div class="head">
        <div>
          <h1>{t('clusterTitle')}</h1>
          {is && <p>{is.kind === 'set' ? t('setLead', { set: is.set }) : t(is.kind === 'router' ? 'routerLead' : 'aloneLead')}</p>}
        </div>
      </div>
      {found.error !== undefined && <Failure error={found.error} again={found.again} />}
      {is?.kind === 'set' && <Members />}
      {is?.kind === 'router' && <Shards />}
    </>
  );
}
