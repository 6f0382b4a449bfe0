// Documents as text: JSON lines (Extended JSON) and CSV, of a page of documents.
import { Doc, json, objectId, Typed, type Value } from './ejson';
import { t } from './i18n';

export type Format = 'jsonl' | 'csv';

/** The documents as text. CSV has a column for each field; what is in a field is text, or Extended JSON. */
export const write = (docs: Doc[], format: Format) => (format === 'jsonl' ? docs.map((d) => `${json(d)}\n`).join('') : writeCSV(docs));

function writeCSV(docs: Doc[]): string {
  const columns = [...new Set(docs.flatMap((d) => d.fields.map(([name]) => name)))];
  const rows = docs.map((d) => columns.map((c) => cell(d.get(c))));
  return [columns, ...rows].map((row) => `${row.map(quoted).join(',')}\r\n`).join('');
}

const asText = ['int', 'long', 'double', 'decimal', 'objectId', 'date'];

function cell(v: Value | undefined): string {
  if (v === undefined) return '';
  if (typeof v === 'string') return v;
  return v instanceof Typed && asText.includes(v.type) ? v.text : json(v);
}

const quoted = (s: string) => (/[",\r\n]|^\s|\s$/.test(s) ? `"${s.replaceAll('"', '""')}"` : s);

/** What the server may read of a text, in the order to try: arrays of documents. What begins with { is a document a line, or one in several lines. */
export function readings(text: string): string[] {
  const start = text.trimStart()[0];
  if (start === '[') return [text];
  if (start === '{') return [`[${text.split('\n').map((line) => (line.trim() ? `${line},` : line)).join('\n').replace(/,(\s*)$/, '$1')}]`, `[${text}]`];
  return [json(readCSV(text))];
}

/** The documents of a CSV file whose first line has names: a.b is a field within a. Numbers, true, false, null, dates in ISO 8601 and 24 hexadecimal digits are what they look like, all else is text; what is empty is left out. */
export function readCSV(text: string): Doc[] {
  const [first, ...rows] = rowsOf(text);
  const names = first!.cells;
  const paths = names.map((name, i) => {
    const path = name.split('.');
    if (path.some((part) => part === '' || part[0] === '$') || names.some((other, j) => j !== i && `${other}.`.startsWith(`${name}.`))) throw new Error(t('csvName', { name }));
    return path;
  });
  return rows.flatMap(({ cells, line }) => {
    const doc = new Doc();
    cells.forEach((s, i) => {
      if (s === '') return;
      if (!paths[i]) throw new Error(t('csvCells', { line }));
      put(doc, paths[i], guessed(s));
    });
    return doc.fields.length ? [doc] : [];
  });
}

/** Adds a value to a document, by its path. */
function put(doc: Doc, [name, ...below]: string[], value: Value) {
  if (below.length === 0) return void doc.fields.push([name!, value]);
  let within = doc.get(name!) as Doc | undefined;
  if (!within) doc.fields.push([name!, (within = new Doc())]);
  put(within, below, value);
}

/** The cells of a CSV file by its rows (RFC 4180), each with the line that it ends in. */
function rowsOf(text: string): { cells: string[]; line: number }[] {
  const rows: { cells: string[]; line: number }[] = [];
  let cells: string[] = [];
  let line = 1;
  const part = /(?:"((?:[^"]|"")*)"|([^,\r\n]*))(,|\r?\n|$)/y;
  for (part.lastIndex = text.startsWith('\ufeff') ? 1 : 0; part.lastIndex < text.length; ) {
    const m = part.exec(text);
    if (!m) throw new Error(`CSV, line ${line}`);
    line += (m[1]?.split('\n').length ?? 1) - 1;
    cells.push(m[1] !== undefined ? m[1].replaceAll('""', '"') : m[2]!);
    if (m[3] === ',' && part.lastIndex < text.length) continue;
    rows.push({ cells, line: line++ });
    cells = [];
  }
  return rows;
}

function guessed(s: string): Value {
  if (s === 'true' || s === 'false' || s === 'null') return JSON.parse(s);
  if (/^[0-9a-f]{24}$/.test(s)) return objectId(s);
  if (/^-?(0|[1-9]\d{0,14})(\.\d+)?$/.test(s)) return new Typed('double', s, s);
  if (/^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)$/.test(s)) return new Typed('date', s, `{"$date":{"$numberLong":"${Date.parse(s)}"}}`);
  return s;
}
