// What all pages are made of.
import { signal } from '@preact/signals';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import type { ComponentChildren } from 'preact';
import { CommandError, isRefused } from '../api';
import { shell, type Sent } from '../ejson';
import { t } from '../i18n';

export const Mark = () => (
  <svg viewBox="0 0 32 32" fill="none" stroke="currentColor" stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">
    <path d="M16 10v11M16 10l-2.5-3.5M16 10l2.5-3.5" />
    <path d="M16 12.5C13 4.5 6 3 4.5 5.5 3.5 9 9 14.5 16 15M16 12.5C19 4.5 26 3 27.5 5.5 28.5 9 23 14.5 16 15" />
    <path d="M16 21c-.5 4-3 7-6 9M16 21v9.5M16 21c.5 4 3 7 6 9" />
  </svg>
);

/** One of several, as a row. */
export function Segments<T extends string>({ label, value, options, choose }: { label: string; value: T; options: [T, string][]; choose: (v: T) => void }) {
  const name = useId();
  return (
    <fieldset class="segments">
      <legend class="hidden">{label}</legend>
      {options.map(([v, text]) => (
        <label key={v}>
          <input type="radio" name={name} checked={v === value} onChange={() => choose(v)} />
          {text}
        </label>
      ))}
    </fieldset>
  );
}

export const Field = ({ label, children }: { label: string; children: ComponentChildren }) => (
  <label class="field">
    <span>{label}</span>
    {children}
  </label>
);

export const Figure = ({ name, value, hint, lead, due }: { name: string; value: ComponentChildren; hint?: string; lead?: boolean; due?: boolean }) => (
  <div class={lead ? 'lead' : ''}>
    <dt>{name}</dt>
    <dd class={due ? 'due' : ''}>
      {value}
      {hint && <small>{hint}</small>}
    </dd>
  </div>
);

/** What went wrong; act says that it was with something to be done, and not to be seen. */
export function Failure({ error, again, act }: { error: unknown; again?: () => void; act?: boolean }) {
  const text = error instanceof CommandError ? error.message : error instanceof TypeError ? t('unreachable') : String(error);
  return (
    <div class="notice warn" role="alert">
      {isRefused(error) ? t(act ? 'refusedAct' : 'refused', { error: text }) : text}
      {again && (
        <button class="plain" type="button" onClick={again}>
          {t('retry')}
        </button>
      )}
    </div>
  );
}

/** The command as mongosh takes it, to copy. It is made of what is sent. */
export const Command = ({ db, command }: { db: string; command: Sent }) => <Copied title={t('command')} text={`db.getSiblingDB(${JSON.stringify(db)}).runCommand(${shell(command)})`} />;

/** Text to copy. */
export function Copied({ title, text }: { title: string; text: string }) {
  const [copied, setCopied] = useState(false);
  const copy = () => navigator.clipboard.writeText(text).then(() => setCopied(true));
  useEffect(() => setCopied(false), [text]);
  return (
    <section class="command" aria-label={title}>
      <header>
        {title}
        <button class="plain" type="button" onClick={copy}>
          <span aria-live="polite">{t(copied ? 'copied' : 'copy')}</span>
        </button>
      </header>
      <pre tabIndex={0}>{text}</pre>
    </section>
  );
}

/** A dialog that is open as long as it is there. The browser keeps the focus in it. */
export function Dialog({ title, close, children }: { title: string; close: () => void; children: ComponentChildren }) {
  const at = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    at.current!.showModal();
    return () => before?.focus();
  }, []);
  return (
    <dialog ref={at} aria-labelledby={id} onClose={close}>
      <h2 id={id}>{title}</h2>
      {children}
    </dialog>
  );
}

/** What a promise came to. It is asked for again when one of inputs changes, and by again; what was there stays meanwhile. soFar shows a part of the first answer before the rest. */
export function useAnswer<T>(ask: (passive: boolean, soFar: (part: T) => void) => Promise<T>, inputs: unknown[], every?: (took: number) => number) {
  const [state, set] = useState<{ value?: T; error?: unknown; part?: boolean }>({});
  const [asking, wait] = useState(true);
  const [round, setRound] = useState(0);
  const key = JSON.stringify(inputs);
  useEffect(() => {
    let over = false;
    let timer = 0;
    const go = async (passive: boolean) => {
      const start = performance.now();
      try {
        if (!passive || document.visibilityState === 'visible') {
          const value = await ask(passive, (part) => over || set((s) => (s.value === undefined || s.part ? { value: part, part: true } : s)));
          if (!over) set({ value });
        }
      } catch (error) {
        if (!over) set((s) => ({ value: passive ? s.value : undefined, error }));
      }
      if (!over && every) timer = window.setTimeout(() => void go(true), every(performance.now() - start));
    };
    wait(true);
    void go(false).then(() => over || wait(false));
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [key, round]);
  return { ...state, asking, again: () => setRound((n) => n + 1) };
}

/** Whether the page is seen. What lasts ends while it is not: a browser has few connections to a server. */
export const visible = signal(document.visibilityState === 'visible');
document.addEventListener('visibilitychange', () => (visible.value = document.visibilityState === 'visible'));

/** How long a page that looks after itself waits: what it asks for takes a hundredth of the time at most. */
export const seldom = (took: number) => Math.max(3000, took * 100);
