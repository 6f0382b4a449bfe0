// The frame: which page, who, and how it looks.
import { useEffect } from 'preact/hooks';
import { signal } from '@preact/signals';
import { accessControl, logout, resume, session } from './api';
import { language, languages, speak, t, utc, type Language } from './i18n';
import { Access } from './pages/access';
import { Cluster } from './pages/cluster';
import { Data } from './pages/data';
import { Expiry } from './pages/expiry';
import { Health } from './pages/health';
import { Login } from './pages/login';
import { Operations } from './pages/operations';
import { Streams } from './pages/streams';
import { route, to } from './route';
import { Failure, Field, Mark, Segments } from './ui/parts';

type Theme = 'system' | 'light' | 'dark';
const theme = signal<Theme>((localStorage.getItem('mayfly-theme') as Theme | null) ?? 'system');
const broken = signal<unknown>(undefined);

const start = () => {
  broken.value = undefined;
  resume().catch((e) => (broken.value = e));
};

function Settings() {
  return (
    <details class="settings">
      <summary>{t('settings')}</summary>
      <div class="fields">
        <Field label={t('language')}>
          <select value={language.value} onChange={(e) => void speak(e.currentTarget.value as Language)}>
            {Object.entries(languages).map(([code, name]) => (
              <option key={code} value={code} lang={code}>
                {name}
              </option>
            ))}
          </select>
        </Field>
        <Field label={t('theme')}>
          <select value={theme.value} onChange={(e) => (theme.value = e.currentTarget.value as Theme)}>
            {(['system', 'light', 'dark'] as const).map((v) => (
              <option key={v} value={v}>
                {t(v)}
              </option>
            ))}
          </select>
        </Field>
        <Segments label={t('times')} value={utc.value ? 'utc' : 'local'} options={[['local', t('local')], ['utc', 'UTC']]} choose={(v) => (utc.value = v === 'utc')} />
      </div>
    </details>
  );
}

function Page() {
  const [page = 'expiry', ...rest] = route.value;
  const Shown = { data: Data, cluster: Cluster, streams: Streams, operations: Operations, access: Access, health: Health }[page] ?? Expiry;
  return <Shown key={route.value.join('/')} db={rest[0]} coll={rest[1]} />;
}

export function App() {
  useEffect(start, []);
  useEffect(() => {
    if (theme.value === 'system') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme.value;
    localStorage.setItem('mayfly-theme', theme.value);
  }, [theme.value]);
  useEffect(() => localStorage.setItem('mayfly-utc', utc.value ? '1' : '0'), [utc.value]);
  if (broken.value !== undefined) {
    return (
      <main class="login">
        <Failure error={broken.value} again={start} />
      </main>
    );
  }
  if (session.value === undefined) return null;
  if (session.value === null) return <Login />;
  const page = route.value[0] ?? 'expiry';
  return (
    <>
      <a class="hidden skip" href="#content" onClick={(e) => (e.preventDefault(), document.getElementById('content')?.focus())}>
        {t('skip')}
      </a>
      {!accessControl.value && (
        <aside class="banner" aria-label={t('notice')}>
          {t('noAccessControl')}
        </aside>
      )}
      <div class="frame">
        <header class="side">
          <div class="brand">
            <Mark /> Mayfly
          </div>
          <nav aria-label={t('pages')}>
            {(['expiry', 'data', 'cluster', 'streams', 'operations', 'access', 'health'] as const).map((p) => (
              <a key={p} href={to(p)} aria-current={page === p ? 'page' : undefined}>
                {t(p)}
              </a>
            ))}
          </nav>
          <div class="who">
            <Settings />
            <div class="small quiet">
              {session.value.user ? (
                <>
                  {session.value.user.user}
                  <button class="plain" type="button" onClick={() => void logout()}>
                    {t('logOut')}
                  </button>
                </>
              ) : (
                t('nobody')
              )}
              <div>{t('version', { version: session.value.version })}</div>
            </div>
          </div>
        </header>
        <main id="content" tabIndex={-1}>
          <Page />
        </main>
      </div>
    </>
  );
}
