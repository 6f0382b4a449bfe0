// Canonical Extended JSON as the server writes it, with every type and the order of fields kept:
// JSON.parse would put fields like "7" first, and make one number of four.

/** A document: its fields in their order. */
export class Doc {
  constructor(readonly fields: [string, Value][] = []) {}
  get(name: string): Value | undefined {
    return this.fields.find(([key]) => key === name)?.[1];
  }
}

/** A value of a type that JSON does not have: what it is, how it reads, and its Extended JSON. */
export class Typed {
  constructor(readonly type: string, readonly text: string, readonly json: string) {}
}

export const objectId = (hex: string) => new Typed('objectId', hex, `{"$oid":"${hex}"}`);

/** A new one: seconds since 1970, and eight bytes by chance. */
export function newObjectId(): Typed {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  new DataView(bytes.buffer).setUint32(0, Date.now() / 1000);
  return objectId([...bytes].map((b) => b.toString(16).padStart(2, '0')).join(''));
}

/** Extended JSON that the server has written, to be sent as it is. */
export class Raw {
  constructor(readonly json: string) {}
}

/** What mongosh reads in a command that is shown in another way than it is sent. */
export class Code {
  constructor(readonly text: string) {}
}

export type Value = null | boolean | string | Value[] | Doc | Typed;

/** The types whose Extended JSON is {"$name": …}, by that name. */
const types: Record<string, string> = {
  $numberInt: 'int', $numberLong: 'long', $numberDouble: 'double', $numberDecimal: 'decimal', $oid: 'objectId', $date: 'date',
  $timestamp: 'timestamp', $binary: 'binData', $regularExpression: 'regex', $minKey: 'minKey', $maxKey: 'maxKey',
  $undefined: 'undefined', $symbol: 'symbol', $code: 'javascript', $dbPointer: 'dbPointer',
};

class Reader {
  at = 0;
  constructor(readonly text: string) {}

  value(): Value {
    const c = this.text[this.at];
    if (c === '{') return this.document();
    if (c === '[') return this.array();
    if (c === '"') return this.string();
    const word = /[a-z0-9.+-]+/iy;
    word.lastIndex = this.at;
    const found = word.exec(this.text)?.[0] ?? '';
    this.at += found.length;
    if (found === 'null' || found === 'true' || found === 'false') return JSON.parse(found);
    return new Typed('int', found, found);
  }

  private string(): string {
    const start = this.at;
    for (this.at++; this.text[this.at] !== '"'; this.at++) {
      if (this.text[this.at] === '\\') this.at++;
      if (this.at >= this.text.length) throw new Error('the reply is cut off');
    }
    return JSON.parse(this.text.slice(start, ++this.at)) as string;
  }

  private array(): Value[] {
    const all: Value[] = [];
    for (this.at++; this.text[this.at] !== ']'; ) {
      all.push(this.value());
      if (this.text[this.at] === ',') this.at++;
    }
    this.at++;
    return all;
  }

  private document(): Value {
    const start = this.at;
    const fields: [string, Value][] = [];
    for (this.at++; this.text[this.at] !== '}'; ) {
      const key = this.string();
      this.at++;
      fields.push([key, this.value()]);
      if (this.text[this.at] === ',') this.at++;
    }
    this.at++;
    const [first] = fields;
    const type = first && types[first[0]];
    if (!type || fields.length > (type === 'javascript' ? 2 : 1)) return new Doc(fields);
    return new Typed(type, reads(type, first[1]), this.text.slice(start, this.at));
  }
}

/** How a value of a type reads, of what is under its $name. */
function reads(type: string, v: Value): string {
  switch (type) {
    case 'date': {
      const ms = Number(v instanceof Typed ? v.text : v);
      const d = new Date(ms);
      return Number.isNaN(d.getTime()) ? String(ms) : d.toISOString();
    }
    case 'timestamp':
      return v instanceof Doc ? v.fields.map(([, n]) => (n instanceof Typed ? n.text : '')).join(', ') : '';
    case 'binData':
      return v instanceof Doc ? `${v.get('subType')}, ${v.get('base64')}` : '';
    case 'regex':
      return v instanceof Doc ? `/${v.get('pattern')}/${v.get('options')}` : '';
    case 'minKey': case 'maxKey': case 'undefined':
      return type;
    case 'dbPointer':
      return shell(v);
  }
  return typeof v === 'string' ? v : json(v);
}

/** Reads what the server has written. */
export const parse = (text: string): Value => new Reader(text).value();

/** What commands are made of: JavaScript's values, and those of documents. */
export type Sent = Value | Raw | Code | undefined | number | Date | Sent[] | { [name: string]: Sent };

/** Extended JSON of a command; fields that are undefined are left out. */
export function json(v: Sent): string {
  if (v instanceof Typed || v instanceof Raw) return v.json;
  if (v instanceof Code) throw new Error(`${v.text} is shown, and not sent`);
  if (v instanceof Date) return `{"$date":{"$numberLong":"${v.getTime()}"}}`;
  if (Array.isArray(v)) return `[${v.map(json).join(',')}]`;
  if (v instanceof Doc) return `{${v.fields.map(([k, x]) => `${JSON.stringify(k)}:${json(x)}`).join(',')}}`;
  if (typeof v === 'object' && v !== null) return json(docOf(v));
  return JSON.stringify(v ?? null);
}

const docOf = (v: { [name: string]: Sent }) => new Doc(Object.entries(v).filter(([, x]) => x !== undefined) as [string, Value][]);

const bare = /^[$A-Z_a-z][$\w]*$/;

/** The text that mongosh takes for a value, in several lines where it is long. */
export function shell(v: Sent, indent = ''): string {
  if (v instanceof Raw) return shell(parse(v.json), indent);
  if (v instanceof Code) return v.text;
  if (v instanceof Date) return `ISODate(${quote(v.toISOString())})`;
  if (v instanceof Typed) return shellTyped(v);
  if (typeof v === 'string') return quote(v);
  if (v === null || v === undefined || typeof v !== 'object') return String(v ?? null);
  const list = Array.isArray(v);
  const parts = list
    ? v.map((x) => shell(x, `${indent}  `))
    : (v instanceof Doc ? v : docOf(v)).fields.map(([k, x]) => `${bare.test(k) ? k : quote(k)}: ${shell(x, `${indent}  `)}`);
  const [open, close] = list ? ['[', ']'] : ['{', '}'];
  const line = list ? `[${parts.join(', ')}]` : parts.length ? `{ ${parts.join(', ')} }` : '{}';
  if (line.length + indent.length < 64 && !line.includes('\n')) return line;
  return `${open}\n${parts.map((p) => `${indent}  ${p}`).join(',\n')}\n${indent}${close}`;
}

const quote = (s: string) => JSON.stringify(s);

function shellTyped(v: Typed): string {
  switch (v.type) {
    case 'int': return v.text;
    case 'double': return /^-?\d+$/.test(v.text) ? `${v.text}.0` : v.text;
    case 'long': return `NumberLong(${quote(v.text)})`;
    case 'decimal': return `NumberDecimal(${quote(v.text)})`;
    case 'objectId': return `ObjectId(${quote(v.text)})`;
    case 'date': return `ISODate(${quote(v.text)})`;
    case 'timestamp': return `Timestamp(${v.text})`;
    case 'regex': return v.text;
    case 'minKey': return 'MinKey()';
    case 'maxKey': return 'MaxKey()';
    case 'binData': {
      const [sub, data] = v.text.split(', ') as [string, string];
      return `BinData(${parseInt(sub, 16)}, ${quote(data)})`;
    }
  }
  return v.json;
}

/** What a command's own reply says, where types do not matter: numbers, dates, objects. */
// eslint-disable-next-line -- replies have the shape that the command's documentation gives
export function plain(v: Value | undefined): any {
  if (v instanceof Typed) {
    if (['int', 'long', 'double', 'decimal'].includes(v.type)) return Number(v.text);
    return v.type === 'date' ? new Date(v.text) : v.text;
  }
  if (Array.isArray(v)) return v.map(plain);
  if (v instanceof Doc) return Object.fromEntries(v.fields.map(([k, x]) => [k, plain(x)]));
  return v;
}
