// Who may do what, who is connected, and who logged in lately.
import { useState } from 'preact/hooks';
import { ask, isRefused } from '../api';
import { Code, type Sent } from '../ejson';
import { number, t, time } from '../i18n';
import { Dialog, Failure, Field, seldom, useAnswer } from '../ui/parts';
import { Table, Unseen } from '../ui/table';
import { Act } from './act';

export const Access = () => (
  <>
    <div class="head">
      <div>
        <h1>{t('accessTitle')}</h1>
        <p>{t('accessLead')}</p>
      </div>
    </div>
    <Users />
    <Connected />
    <Lately />
  </>
);

interface Role {
  role: string;
  db: string;
}

interface User {
  user: string;
  db: string;
  roles: Role[];
  mechanisms: string[];
}

interface Own extends Role {
  privileges: number;
  roles: Role[];
}

const called = (r: Role) => `${r.role}@${r.db}`;
const listed = 500;

async function users(): Promise<{ users: User[]; roles: Own[] }> {
  const { users } = await ask('admin', { usersInfo: { forAllDBs: true } });
  // eslint-disable-next-line -- users as usersInfo shows them
  const all: User[] = users.map((u: any) => ({ user: u.user, db: u.db, roles: u.roles ?? [], mechanisms: u.mechanisms ?? [] }));
  const dbs = [...new Set(['admin', ...all.flatMap((u) => [u.db, ...u.roles.map((r) => r.db)])])].filter((d) => !d.startsWith('$')).slice(0, listed);
  const roles = await Promise.all(dbs.map((db) => ask(db, { rolesInfo: 1, showPrivileges: true }).then((r) => r.roles, () => [])));
  // eslint-disable-next-line -- roles as rolesInfo shows them
  return { users: all, roles: roles.flat().map((r: any): Own => ({ role: r.role, db: r.db, privileges: r.privileges?.length ?? 0, roles: r.roles ?? [] })) };
}

function Users() {
  const found = useAnswer(users, []);
  const [making, make] = useState(false);
  const [dropping, drop] = useState<User>();
  const { users: all = [], roles = [] } = found.value ?? {};
  const again = (done: boolean) => {
    make(false);
    drop(undefined);
    if (done) found.again();
  };
  return (
    <>
      <section class="card">
        <div class="card-head">
          <h2>{t('users')}</h2>
          {all.length > listed && <span class="quiet small">{t('firstShown', { n: listed })}</span>}
          {found.value && (
            <button type="button" onClick={() => make(true)}>
              {t('newUser')}
            </button>
          )}
        </div>
        {found.error !== undefined && <Failure error={found.error} again={found.again} />}
        {found.value && all.length === 0 && <p class="empty">{t('noUsers')}</p>}
        {all.length > 0 && (
          <Table
            label={t('users')} rows={all.slice(0, listed)} id={(u) => `${u.db}.${u.user}`}
            columns={[
              [t('user'), (u) => u.user, 'mono'],
              [t('database'), (u) => u.db, 'mono'],
              [t('roles'), (u) => u.roles.map(called).join(', ') || '–', 'mono'],
              [t('mechanisms'), (u) => u.mechanisms.join(', '), 'small'],
              [<Unseen name={t('dropUser')} />, (u) => (
                <button type="button" class="danger" aria-label={t('dropUserNamed', { user: u.user })} onClick={() => drop(u)}>
                  {t('dropUser')}
                </button>
              ), 'right'],
            ]}
          />
        )}
      </section>
      {roles.length > 0 && (
        <section class="card">
          <div class="card-head"><h2>{t('ownRoles')}</h2></div>
          <Table
            label={t('ownRoles')} rows={roles} id={called}
            columns={[
              [t('role'), (r) => r.role, 'mono'],
              [t('database'), (r) => r.db, 'mono'],
              [t('inherits'), (r) => [t('privileges', { n: r.privileges }), ...r.roles.map(called)].join(', ')],
            ]}
          />
        </section>
      )}
      {making && <MakeUser close={again} />}
      {dropping && (
        <Dialog title={t('dropUserTitle', { user: dropping.user })} close={() => again(false)}>
          <div class="stack">
            <p>{t('dropUserText')}</p>
            <Act db={dropping.db} command={{ dropUser: dropping.user }} ready due={0} label={t('dropUser')} close={again} />
          </div>
        </Dialog>
      )}
    </>
  );
}

/** In the place of a password that is typed: mongosh asks for it. */
const passwordPrompt = new Code('passwordPrompt()');

const builtIn = ['read', 'readWrite', 'dbAdmin', 'userAdmin', 'dbOwner'];
const ofAdmin = ['readAnyDatabase', 'readWriteAnyDatabase', 'dbAdminAnyDatabase', 'userAdminAnyDatabase', 'clusterMonitor', 'clusterManager', 'hostManager', 'clusterAdmin', 'backup', 'restore', 'root'];

function MakeUser({ close }: { close: (made: boolean) => void }) {
  const [user, setUser] = useState('');
  const [db, setDB] = useState('admin');
  const [pwd, setPwd] = useState('');
  const [role, setRole] = useState('read');
  const [on, setOn] = useState('');
  const of = ofAdmin.includes(role) ? 'admin' : on;
  const command = (secret: Sent): Sent => ({ createUser: user, pwd: secret, roles: [{ role, db: of }] });
  const text = (value: string, set: (v: string) => void) => ({ value, spellcheck: false, autocapitalize: 'off' as const, onInput: (e: { currentTarget: HTMLInputElement }) => set(e.currentTarget.value) });
  return (
    <Dialog title={t('newUser')} close={() => close(false)}>
      <div class="stack">
        <div class="grid2">
          <Field label={t('user')}><input class="mono" autocomplete="off" {...text(user, setUser)} /></Field>
          <Field label={t('database')}><input class="mono" {...text(db, setDB)} /></Field>
        </div>
        <Field label={t('password')}><input type="password" autocomplete="new-password" {...text(pwd, setPwd)} /></Field>
        <div class="grid2">
          <Field label={t('role')}>
            <select value={role} onChange={(e) => setRole(e.currentTarget.value)}>
              {[...builtIn, ...ofAdmin].map((r) => (
                <option key={r} value={r}>{r}</option>
              ))}
            </select>
          </Field>
          <Field label={t('roleOn')}><input class="mono" {...text(of, setOn)} disabled={ofAdmin.includes(role)} /></Field>
        </div>
        <Act db={db} command={command(pwd)} shown={command(passwordPrompt)} ready={user !== '' && db !== '' && pwd !== '' && of !== ''} due={0} label={t('createUser')} close={close} />
      </div>
    </Dialog>
  );
}

interface Group {
  from: string;
  user: string;
  app: string;
  driver: string;
  all: number;
  active: number;
}

/** Connections of one client, user and program together: there can be thousands. */
async function connected(passive: boolean): Promise<Group[]> {
  const list = (allUsers: boolean) => ask('admin', { aggregate: 1, pipeline: [{ $currentOp: { allUsers, idleConnections: true, localOps: true } }, { $match: { client: { $exists: true } } },
    { $project: { client: 1, appName: 1, effectiveUsers: 1, active: 1, driver: '$clientMetadata.driver' } }], cursor: { batchSize: 100_000 } }, passive);
  const { cursor } = await list(true).catch((e) => (isRefused(e) ? list(false) : Promise.reject(e)));
  const groups = new Map<string, Group>();
  for (const c of cursor.firstBatch) {
    // eslint-disable-next-line -- connections as $currentOp shows them
    const g = { from: String(c.client).replace(/:\d+$/, ''), user: (c.effectiveUsers ?? []).map((u: any) => u.user).join(', '), app: c.appName ?? '', driver: [c.driver?.name, c.driver?.version].filter(Boolean).join(' ') };
    const key = JSON.stringify(g);
    const one = groups.get(key) ?? { ...g, all: 0, active: 0 };
    one.all++;
    if (c.active) one.active++;
    groups.set(key, one);
  }
  return [...groups.values()].sort((a, b) => b.all - a.all);
}

function Connected() {
  const found = useAnswer(connected, [], seldom);
  return (
    <section class="card">
      <div class="card-head"><h2>{t('connected')}</h2></div>
      {found.error !== undefined && <Failure error={found.error} again={found.again} />}
      {found.value && (
        <Table
          label={t('connected')} rows={found.value.slice(0, listed)} id={(g) => `${g.from} ${g.user} ${g.app} ${g.driver}`}
          columns={[
            [t('client'), (g) => [<span class="mono">{g.from}</span>, ' ', <span class="small quiet">{g.app}</span>]],
            [t('user'), (g) => g.user || '–', 'mono'],
            [t('driver'), (g) => g.driver || '–', 'small'],
            [t('connections'), (g) => number(g.all), 'right num'],
            [t('active2'), (g) => number(g.active), 'right num'],
          ]}
        />
      )}
    </section>
  );
}

interface Login {
  at: Date;
  user: string;
  from: string;
  error: string;
}

/** The newest logins of the log. */
async function lately(passive: boolean): Promise<Login[]> {
  const { log } = await ask('admin', { getLog: 'global' }, passive);
  const found: Login[] = [];
  for (let i = log.length - 1; i >= 0 && found.length < 50; i--) {
    if (!log[i].includes('"ACCESS"')) continue;
    try {
      const { t: at, msg, attr } = JSON.parse(log[i]);
      if (/authenticate/i.test(msg)) found.push({ at: new Date(at.$date), user: `${attr.user ?? ''}@${attr.db ?? ''}`, from: attr.client ?? '', error: String(attr.error ?? '') });
    } catch {
      continue; // a line that was cut
    }
  }
  return found;
}

function Lately() {
  const found = useAnswer(lately, [], seldom);
  return (
    <section class="card">
      <div class="card-head">
        <h2>{t('lately')}</h2>
        <span class="quiet small">{t('latelyHint')}</span>
      </div>
      {found.error !== undefined && <Failure error={found.error} again={found.again} />}
      {found.value?.length === 0 && <p class="empty">{t('noLogins')}</p>}
      {found.value && found.value.length > 0 && (
        <Table
          label={t('lately')} rows={found.value}
          columns={[
            [t('time'), (l) => time(l.at), 'num'],
            [t('user'), (l) => l.user, 'mono'],
            [t('client'), (l) => l.from, 'mono'],
            [t('outcome'), (l) => (
              <>
                <span class={`tag ${l.error ? 'held' : ''}`}>{t(l.error ? 'notLoggedIn' : 'loggedIn')}</span>
                {l.error && <div class="small quiet">{l.error}</div>}
              </>
            )],
          ]}
        />
      )}
    </section>
  );
}
