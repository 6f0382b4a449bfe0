// The editor itself, CodeMirror: a part of the page that is loaded with the first text that is edited.
import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, type CompletionContext } from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands';
import { javascriptLanguage } from '@codemirror/lang-javascript';
import { bracketMatching, HighlightStyle, indentOnInput, LanguageSupport, syntaxHighlighting } from '@codemirror/language';
import { EditorState, StateEffect, StateField } from '@codemirror/state';
import { Decoration, type DecorationSet, drawSelection, EditorView, keymap, placeholder, tooltips } from '@codemirror/view';
import { tags } from '@lezer/highlight';
import { placeIn } from '../completion';

export interface Options {
  label: string;
  value: string;
  hint?: string;
  onInput: (text: string) => void;
  /** What fits where the text that is given ends. */
  propose: (before: string) => Promise<string[]>;
}

/** An editor that is open. */
export interface Editing {
  /** Marks the character at which something is wrong; undefined for nothing. */
  mark(at: number | undefined): void;
  close(): void;
}

const theme = EditorView.theme({
  '&': { font: '0.8125rem/1.6 var(--mono)', color: 'var(--ink)', background: 'var(--surface)', border: '1px solid var(--line-strong)', borderRadius: '8px' },
  '&.cm-focused': { outline: '2px solid var(--accent)', outlineOffset: '2px' },
  '.cm-scroller': { font: 'inherit', maxHeight: '420px', overflow: 'auto' },
  '.cm-content': { padding: '8px 0', caretColor: 'var(--ink)' },
  '.cm-line': { padding: '0 11px' },
  '.cm-cursor': { borderLeftColor: 'var(--ink)' },
  '.cm-placeholder': { color: 'var(--ink-2)' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': { background: 'var(--accent-soft)' },
  '&.cm-focused .cm-matchingBracket': { background: 'var(--accent-soft)', outline: '1px solid var(--line-strong)' },
  '&.cm-focused .cm-nonmatchingBracket': { background: 'var(--due-soft)' },
  '.cm-problem': { background: 'var(--due-soft)', textDecoration: 'underline wavy var(--due)' },
  '.cm-tooltip': { background: 'var(--surface)', color: 'var(--ink)', border: '1px solid var(--line-strong)', borderRadius: '8px', boxShadow: 'var(--shadow)', overflow: 'hidden' },
  '.cm-tooltip-autocomplete > ul': { font: '0.8125rem/1.6 var(--mono)', maxHeight: '220px' },
  '.cm-tooltip-autocomplete > ul > li': { padding: '2px 10px' },
  '.cm-tooltip-autocomplete > ul > li[aria-selected]': { background: 'var(--accent)', color: 'var(--accent-ink)' },
  '.cm-completionMatchedText': { textDecoration: 'none', fontWeight: '700' },
});

const colors = HighlightStyle.define([
  { tag: [tags.string, tags.regexp], color: 'var(--accent)' },
  { tag: [tags.function(tags.variableName), tags.variableName], color: 'var(--due)' },
  { tag: [tags.null, tags.punctuation, tags.bracket], color: 'var(--ink-2)' },
]);

const setProblem = StateEffect.define<number | undefined>();
const problem = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(marks, tr) {
    marks = marks.map(tr.changes);
    for (const e of tr.effects) {
      if (!e.is(setProblem)) continue;
      const { length } = tr.state.doc;
      const from = Math.max(0, Math.min(e.value ?? 0, length - 1));
      marks = e.value === undefined || length === 0 ? Decoration.none : Decoration.set(Decoration.mark({ class: 'cm-problem' }).range(from, from + 1));
    }
    return marks;
  },
  provide: (f) => EditorView.decorations.from(f),
});

const bare = /^[$A-Z_a-z][$\w]*$/;

/** The proposals at the cursor. What is no plain name is put in quotes, where there are none yet. */
const source = (propose: Options['propose']) => async (c: CompletionContext) => {
  const before = c.state.sliceDoc(0, c.pos);
  const { word, naming } = placeIn(before);
  if (word === '' && !c.explicit) return null;
  const from = c.pos - word.length;
  const quoted = /["']/.test(before[from - 1] ?? '');
  const found = await propose(before);
  return {
    from, validFor: /^[\w$.\u0080-\uffff]*$/,
    options: found.map((name) => ({ label: name, boost: name.startsWith('$') ? 0 : 1, apply: quoted || (naming && bare.test(name)) ? name : JSON.stringify(name) })),
  };
};

/** Opens an editor in host: in a tree of its own, where its styles need no element that the policy forbids. */
export function openEditor(host: HTMLElement, o: Options): Editing {
  const root = host.shadowRoot ?? host.attachShadow({ mode: 'open' });
  const view = new EditorView({
    root, parent: root,
    state: EditorState.create({
      doc: o.value,
      extensions: [
        history(), drawSelection(), indentOnInput(), bracketMatching(), closeBrackets(), theme, syntaxHighlighting(colors), problem, EditorView.lineWrapping, tooltips({ position: 'fixed' }),
        new LanguageSupport(javascriptLanguage.configure({ top: 'SingleExpression' })), EditorState.tabSize.of(2),
        autocompletion({ override: [source(o.propose)], icons: false }),
        // The form takes Ctrl+Enter; Tab goes on to the next field, as everywhere.
        keymap.of([{ key: 'Mod-Enter', run: () => true }, ...closeBracketsKeymap, ...completionKeymap, ...defaultKeymap, ...historyKeymap]),
        placeholder(o.hint ?? ''),
        EditorView.contentAttributes.of((v) => ({ 'aria-label': o.label, 'aria-invalid': String(v.state.field(problem).size > 0), spellcheck: 'false', autocapitalize: 'off' })),
        EditorView.updateListener.of((u) => u.docChanged && o.onInput(u.state.doc.toString())),
      ],
    }),
  });
  return {
    mark: (at) => view.dispatch({ effects: setProblem.of(at) }),
    close: () => view.destroy(),
  };
}
