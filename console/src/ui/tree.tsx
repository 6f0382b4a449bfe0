// A document as a tree, with the type of each value.
import { Doc, shell, Typed, type Value } from '../ejson';
import { span, t, time } from '../i18n';
import { now } from '../leaving';

/** Counts down to when a document leaves. */
export function Leaving({ at }: { at: number | undefined }) {
  if (at === undefined) return null;
  const left = (at - now.value) / 1000;
  return (
    <span class={left > 0 ? 'leaving' : 'leaving over'} title={time(new Date(at))}>
      {left > 0 ? t('leavesIn', { span: span(left) }) : t('isDue')}
    </span>
  );
}

const typeOf = (v: Value): string => {
  if (v instanceof Typed) return v.type;
  if (v instanceof Doc) return 'object';
  return Array.isArray(v) ? 'array' : v === null ? 'null' : typeof v === 'boolean' ? 'bool' : 'string';
};

type Edit = (path: string, value: Value) => void;

export const Tree = ({ doc, edit }: { doc: Doc; edit?: Edit }) => (
  <ul class="tree">
    {doc.fields.map(([name, v]) => (
      <Node key={name} name={name} value={v} path={name} edit={name === '_id' ? undefined : edit} />
    ))}
  </ul>
);

const opened = 3; // a value with more parts is closed at first

function Node({ name, value, path, edit }: { name: string; value: Value; path: string; edit?: Edit }) {
  const parts: [string, Value][] | undefined = value instanceof Doc ? value.fields : Array.isArray(value) ? value.map((v, i) => [String(i), v]) : undefined;
  const may = edit && !/[.$\0]/.test(name) && name !== '' ? edit : undefined; // no path leads to such a name
  if (parts && parts.length > 0) {
    return (
      <li>
        <details open={parts.length <= opened}>
          <summary>
            <span class="key">{name}</span> <span class="type">{`${typeOf(value)} ${parts.length}`}</span>
          </summary>
          <ul class="tree">
            {parts.map(([k, v]) => (
              <Node key={k} name={k} value={v} path={`${path}.${k}`} edit={may} />
            ))}
          </ul>
        </details>
      </li>
    );
  }
  return (
    <li>
      <span class="key">{name}</span>{' '}
      {may ? (
        <button type="button" class={`value ${typeOf(value)}`} onClick={() => may(path, value)} aria-label={t('editNamed', { field: path, value: text(value) })}>
          {text(value)}
        </button>
      ) : (
        <span class={`value ${typeOf(value)}`}>{text(value)}</span>
      )}{' '}
      <span class="type">{typeOf(value)}</span>
    </li>
  );
}

const longest = 2000;
const text = (v: Value) => {
  const all = v instanceof Typed && v.type !== 'binData' ? v.text : shell(v);
  return all.length > longest ? `${all.slice(0, longest)}…` : all;
};
