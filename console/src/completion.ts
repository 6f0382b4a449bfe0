// What an editor proposes: names of fields, stages and operators, by where in the text one is. The lists are the server's.

/** The names that the server knows, each of which begins with a $. */
export interface Operators {
  stages: string[];
  match: string[];
  expressions: string[];
  accumulators: string[];
  windows: string[];
}

/** What a text is: a filter, a pipeline, or a document whose fields are named (a sort, a projection, a document). */
export type Kind = 'filter' | 'pipeline' | 'document';

/** Where a text ends: the names that lead there ("" for a place in an array), whether a name comes next or a value, and what of it is there. */
export interface Place {
  path: string[];
  naming: boolean;
  word: string;
}

/** Reads a text as far as it goes; what is not right in it does no harm. */
export function placeIn(text: string): Place {
  const open: { array: boolean; name: string; naming: boolean }[] = [];
  let word = '';
  for (let i = 0; i < text.length; i++) {
    const c = text[i]!;
    const top = open[open.length - 1];
    if (c === '"' || c === "'") {
      let end = i + 1;
      while (end < text.length && text[end] !== c) end += text[end] === '\\' ? 2 : 1;
      word = text.slice(i + 1, end);
      i = end;
    } else if (/[\w$.\u0080-\uffff]/.test(c)) word = /[\w$.\u0080-\uffff]/.test(text[i - 1] ?? '') ? word + c : c;
    else {
      if (c === ':' && top && !top.array) [top.name, top.naming] = [word, false];
      else if (c === ',' && top) top.naming = !top.array;
      else if (c === '{' || c === '[') open.push({ array: c === '[', name: '', naming: c === '{' });
      else if (c === '}' || c === ']') open.pop();
      word = '';
    }
  }
  return { path: open.slice(0, -1).map((o) => o.name), naming: open[open.length - 1]?.naming ?? false, word };
}

/** The names that fit at a place. */
export function proposals(kind: Kind, { path, naming, word }: Place, of: Operators, fields: string[]): string[] {
  if (kind === 'document') return naming ? fields : [];
  let stage = '$match';
  let inside = path;
  if (kind === 'pipeline') {
    // Of pipelines one within the other the innermost counts. A stage is in a document in an array.
    const at = path.findLastIndex((name, i) => path[i - 1] === '' && of.stages.includes(name));
    const begins = path.at(-1) === '' && (at < 0 || path.at(-2) === 'pipeline' || path.at(-3) === '$facet');
    if (begins) return naming ? of.stages : [];
    if (at < 0) return [];
    stage = path[at]!;
    inside = path.slice(at + 1);
  }
  if (stage === '$match' && !inside.includes('$expr')) {
    if (!naming) return [];
    const last = inside.findLast((name) => name !== '');
    return last === undefined || ['$and', '$or', '$nor', '$elemMatch'].includes(last) ? [...fields, ...of.match] : of.match;
  }
  if (!naming) return word.startsWith('$') ? fields.map((name) => `$${name}`) : [];
  const within = inside.some((name) => name.startsWith('$'));
  if (['$group', '$bucket', '$bucketAuto'].includes(stage) && inside.length > 0 && !within) return inside[0] === '_id' ? of.expressions : of.accumulators;
  if (stage === '$setWindowFields' && inside.length === 2) return of.windows;
  return inside.length === 0 ? fields : [...fields, ...of.expressions];
}
