// Documents as text: JSON lines (Extended JSON) and CSV, of a page of documents.
import { Doc, json, Typed, type Value } from './ejson';

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

/** What is to be read by the server of a text: an array of documents; with the lines that they begin at. */
export function arrayOf(text: string): { text: string; format: Format | 'json' } {
  const start = text.trimStart()[0];
  if (start === '[') return { text, format: 'json' };
  if (start === '{') return { text: `[${text.split('\n').map((line) => (line.trim() ? `${line},` : line)).join('\n').replace(/,(\s*)$/, '$1')}]`, format: 'jsonl' };
  return { text: json(readCSV(text)), format: 'csv' };
}

/** The documents of a CSV file whose first line has names. Numbers, true, false, null, dates in ISO 8601 and 24 hexadecimal digits are what they look like, all else is text; what is empty is left out. */
export function readCSV(text: string): Doc[] {
  const [names = [], ...rows] = cells(text);
  return rows.filter((row) => row.some((c) => c !== '')).map((row) => new Doc(names.flatMap((name, i): [string, Value][] => (row[i] ? [[name, guessed(row[i])]] : []))));
}

/** The cells of a CSV file by its rows (RFC 4180). */
function cells(text: string): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  const part = /(?:"((?:[^"]|"")*)"|([^,\r\n]*))(,|\r?\n|$)/y;
  for (part.lastIndex = text.startsWith('\ufeff') ? 1 : 0; part.lastIndex < text.length; ) {
    const at = part.lastIndex;
    const m = part.exec(text);
    if (!m) throw new Error(`CSV, line ${text.slice(0, at).split('\n').length}`);
    row.push(m[1] !== undefined ? m[1].replaceAll('""', '"') : m[2]!);
    if (m[3] === ',' && part.lastIndex < text.length) continue;
    rows.push(row);
    row = [];
  }
  return rows;
}

function guessed(s: string): Value {
  if (s === 'true' || s === 'false' || s === 'null') return JSON.parse(s);
  if (/^[0-9a-f]{24}$/.test(s)) return new Typed('objectId', s, `{"$oid":"${s}"}`);
  if (/^-?(0|[1-9]\d{0,14})(\.\d+)?$/.test(s)) return new Typed('double', s, s);
  if (/^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)$/.test(s)) return new Typed('date', s, `{"$date":{"$numberLong":"${Date.parse(s)}"}}`);
  return s;
}
