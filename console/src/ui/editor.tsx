// A text that a person edits: a filter, a pipeline, a document.
import { useEffect, useRef, useState } from 'preact/hooks';
import { CommandError, operators, read } from '../api';
import { placeIn, proposals, type Kind } from '../completion';
import type { Raw } from '../ejson';
import { t } from '../i18n';
import type { Editing } from './codemirror';
import { Failure } from './parts';

/** What the server has read of a text. */
export interface Read {
  value?: Raw;
  error?: unknown;
}

/** What the server reads of a text, when its writer rests; nothing while it does not know. An empty text is no value, and no error. */
export function useRead(text: string): Read {
  const [said, say] = useState<Read & { of?: string }>({});
  useEffect(() => {
    if (text.trim() === '') return;
    let over = false;
    const timer = setTimeout(() => {
      read(text).then(
        (value) => over || say({ of: text, value }),
        (error) => over || say({ of: text, error }),
      );
    }, 250);
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [text]);
  return said.of === text ? said : {};
}

/** The place of an error in a text: the server counts in bytes. */
function placeOf(error: unknown, text: string): number | undefined {
  if (!(error instanceof CommandError) || error.at === undefined) return undefined;
  return new TextDecoder().decode(new TextEncoder().encode(text).slice(0, error.at)).length;
}

/** An editor, which begins with the text value and tells of each other one; said is what the server has read of it, fields are names that are proposed. */
export function Editor({ label, kind, value, said: { error }, fields, hint, onInput }: { label: string; kind: Kind; value: string; said: Read; fields: string[]; hint?: string; onInput: (text: string) => void }) {
  const host = useRef<HTMLDivElement>(null);
  const editing = useRef<Editing | undefined>(undefined);
  const [missing, miss] = useState<unknown>();
  const now = useRef({ value, fields, onInput });
  now.current = { value, fields, onInput };
  useEffect(() => {
    let over = false;
    import('./codemirror').then(({ openEditor }) => {
      if (over) return;
      editing.current = openEditor(host.current!, {
        label, hint, value: now.current.value, onInput: (text) => now.current.onInput(text),
        propose: async (before) => proposals(kind, placeIn(before), await operators(), now.current.fields),
      });
    }, miss);
    return () => {
      over = true;
      editing.current?.close();
    };
  }, []);
  useEffect(() => editing.current?.mark(placeOf(error, value)), [error]);
  return (
    <div class="field">
      <span aria-hidden="true">{label}</span>
      <div ref={host} class="editor" />
      {missing !== undefined && <Failure error={missing} />}
      <p class="problem small" aria-live="polite">{error instanceof CommandError ? t('notRead', { error: error.message }) : ''}</p>
    </div>
  );
}
