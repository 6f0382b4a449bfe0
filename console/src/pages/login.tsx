import { useState } from 'preact/hooks';
import { CommandError, login } from '../api';
import { t } from '../i18n';
import { Failure, Field, Mark } from '../ui/parts';

export function Login() {
  const [error, fail] = useState<unknown>();
  const [waiting, wait] = useState(false);
  const submit = async (e: SubmitEvent) => {
    e.preventDefault();
    const form = new FormData(e.currentTarget as HTMLFormElement);
    const text = (name: string) => String(form.get(name) ?? '');
    wait(true);
    try {
      await login({ user: text('user'), password: text('password'), db: text('db') });
    } catch (e) {
      fail(e);
      wait(false);
    }
  };
  return (
    <main class="login">
      <form class="card" onSubmit={submit}>
        <h1 class="brand">
          <Mark /> Mayfly
        </h1>
        <p class="quiet">{t('tagline')}</p>
        {error instanceof CommandError && error.code === 18 ? (
          <p class="notice warn" role="alert">
            {t('wrongPassword')}
          </p>
        ) : (
          error !== undefined && <Failure error={error} />
        )}
        <Field label={t('user')}>
          <input name="user" autocomplete="username" autocapitalize="off" spellcheck={false} required />
        </Field>
        <Field label={t('password')}>
          <input name="password" type="password" autocomplete="current-password" required />
        </Field>
        <Field label={t('database')}>
          <input name="db" class="mono" defaultValue="admin" autocapitalize="off" spellcheck={false} required />
        </Field>
        <button class="primary" disabled={waiting}>
          {t('logIn')}
        </button>
      </form>
    </main>
  );
}
