import { useEffect, useState } from 'preact/hooks';
import { run } from '../api';
import type { Doc, Sent } from '../ejson';
import { t } from '../i18n';
import { Command, Failure } from '../ui/parts';

/** The end of a form: it runs the command that is shown; shown differs from it by a secret alone. due is what has to be acknowledged; ready, that it may run; check fails where its reply says that nothing was done. */
export function Act({ db, command, shown = command, ready, due, label, close, check }: { db: string; command: Sent; shown?: Sent; ready: boolean; due: number; label: string; close: (done: boolean) => void; check?: (reply: Doc) => void }) {
  const [seen, see] = useState(false);
  const [running, setRunning] = useState(false);
  const [error, fail] = useState<unknown>();
  useEffect(() => see(false), [due]);
  const act = async () => {
    setRunning(true);
    try {
      const reply = await run(db, command);
      check?.(reply);
      close(true);
    } catch (e) {
      fail(e);
      setRunning(false);
    }
  };
  return (
    <>
      <Command db={db} command={shown} />
      {error !== undefined && <Failure error={error} act />}
      {ready && due > 0 && (
        <label class="check">
          <input type="checkbox" checked={seen} onChange={(e) => see(e.currentTarget.checked)} />
          {t('sure', { n: due })}
        </label>
      )}
      <div class="actions">
        <button type="button" onClick={() => close(false)}>
          {t('cancel')}
        </button>
        <button type="button" class="primary" disabled={!ready || running || (due > 0 && !seen)} onClick={act}>
          {label}
        </button>
      </div>
    </>
  );
}
