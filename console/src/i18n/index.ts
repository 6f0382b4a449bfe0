// The words of the page. English comes with it, the others are loaded when chosen.
import { signal } from '@preact/signals';
import { en } from './en';

export type Key = keyof typeof en;
export type Dictionary = Record<Key, string>;

export const languages = { en: 'English', ko: '한국어', ja: '日本語', zh: '中文' };
export type Language = keyof typeof languages;

const loaders: Record<Language, () => Promise<Dictionary>> = {
  en: async () => en,
  ko: async () => (await import('./ko')).ko,
  ja: async () => (await import('./ja')).ja,
  zh: async () => (await import('./zh')).zh,
};

export const language = signal<Language>('en');
const words = signal<Dictionary>(en);

/** Changes the language, and remembers it. */
export async function speak(to: Language) {
  words.value = await loaders[to]();
  language.value = to;
  document.documentElement.lang = to;
  localStorage.setItem('mayfly-language', to);
}

/** The language chosen before, else the browser's. */
export function preferred(): Language {
  const all = [localStorage.getItem('mayfly-language') ?? '', ...navigator.languages.map((l) => l.slice(0, 2))];
  return (all.find((l) => l in languages) as Language | undefined) ?? 'en';
}

/** The text of a key, with {names} filled in: numbers as the language writes them. "a|b" are the forms for one and for others. */
export function t(key: Key, values: Record<string, string | number> = {}): string {
  let text = words.value[key] ?? key;
  if (text.includes('|')) {
    const n = Object.values(values).find((v) => typeof v === 'number') as number | undefined;
    text = text.split('|')[n === 1 ? 0 : 1]!;
  }
  return text.replace(/\{(\w+)\}/g, (_, name: string) => {
    const v = values[name];
    return typeof v === 'number' ? number(v) : (v ?? '');
  });
}

/** The language as the browser's person writes it, where that is known: en-GB. */
const locale = () => navigator.languages.find((l) => l.slice(0, 2) === language.value) ?? language.value;

export const number = (n: number) => new Intl.NumberFormat(locale(), { maximumFractionDigits: n < 10 ? 1 : 0 }).format(n);
export const compact = (n: number) => new Intl.NumberFormat(locale(), { notation: 'compact', maximumFractionDigits: 1 }).format(n);

/** Bytes in the unit that suits them. */
export function bytes(n: number): string {
  const units = ['byte', 'kilobyte', 'megabyte', 'gigabyte', 'terabyte'];
  const i = n < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(n) / 3));
  return new Intl.NumberFormat(locale(), { style: 'unit', unit: units[i], unitDisplay: 'short', maximumFractionDigits: i && n / 1000 ** i < 100 ? 1 : 0 }).format(n / 1000 ** i);
}

const steps: [Intl.RelativeTimeFormatUnit, number][] = [['day', 86400], ['hour', 3600], ['minute', 60], ['second', 1]];

/** A time span in its two largest units: 2 hr, 5 min. */
export function span(seconds: number): string {
  const parts: string[] = [];
  let rest = Math.max(0, Math.round(seconds));
  for (const [unit, size] of steps) {
    const n = Math.floor(rest / size);
    if ((n === 0 && (parts.length > 0 || unit !== 'second')) || parts.length === 2) {
      if (parts.length) break;
      continue;
    }
    parts.push(new Intl.NumberFormat(locale(), { style: 'unit', unit, unitDisplay: 'short' }).format(n));
    rest -= n * size;
  }
  return parts.join(' ');
}

/** Whether times are shown in UTC. */
export const utc = signal(localStorage.getItem('mayfly-utc') === '1');

export function time(at: Date, style: Intl.DateTimeFormatOptions = { dateStyle: 'medium', timeStyle: 'medium' }): string {
  return new Intl.DateTimeFormat(locale(), { ...style, timeZone: utc.value ? 'UTC' : undefined }).format(at);
}
