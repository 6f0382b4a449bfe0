// Bars over time, drawn as SVG: each can be reached by the keyboard, and is in a table as well.
import { useEffect, useRef, useState } from 'preact/hooks';
import { compact, t, time } from '../i18n';

export interface Bar {
  from: Date;
  to: Date;
  n: number;
}

const height = 200;
const left = 44;
const below = 22;

/** A round number at or above n, for the top of an axis. */
export function ceiling(n: number): number {
  const unit = 10 ** Math.floor(Math.log10(Math.max(1, n)));
  return [1, 1.5, 2, 3, 4, 5, 6, 8].map((m) => m * unit).find((m) => m >= n && Number.isInteger(m)) ?? 10 * unit;
}

/** What comes due; a bar of a day is called by its day, a shorter one by its time. */
export function Forecast({ bars, due, later, daily }: { bars: Bar[]; due: number; later: number; daily: boolean }) {
  const [at, setAt] = useState<number | null>(null);
  const box = useRef<SVGSVGElement>(null);
  const [width, setWidth] = useState(760);
  useEffect(() => {
    const observer = new ResizeObserver(([e]) => setWidth(Math.max(240, Math.round(e!.contentRect.width))));
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, []);
  const top = ceiling(Math.max(due, ...bars.map((b) => b.n)));
  const all = [{ n: due, now: true as const }, ...bars.map((b) => ({ ...b, now: false as const }))];
  const step = (width - left) / all.length;
  const every = Math.ceil((daily ? 62 : 52) / step); // bars from one label to the next
  const y = (n: number) => (height - below) * (1 - n / top);
  const label = (d: Date) => time(d, daily ? { day: 'numeric', month: 'short' } : { hour: '2-digit', minute: '2-digit' });
  // Shorter bars are of two days: what is beside no axis has the date, too.
  const full = (d: Date) => time(d, daily ? { dateStyle: 'medium' } : { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' });
  const says = (i: number) => {
    const b = all[i]!;
    return b.now ? `${t('dueNow')}: ${t('nDocuments', { n: b.n })}` : t('bar', { from: full(b.from), to: full(b.to), n: b.n });
  };
  const empty = due === 0 && bars.every((b) => b.n === 0);
  const move = (e: KeyboardEvent) => {
    const by = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[e.key];
    if (by === undefined) return;
    e.preventDefault();
    setAt((now) => Math.min(all.length - 1, Math.max(0, (now ?? (by > 0 ? -1 : all.length)) + by)));
  };
  const summary = t('forecastOf', { from: full(bars[0]!.from), to: full(bars[bars.length - 1]!.to) });
  return (
    <figure class="chart">
      <svg ref={box} height={height} role="img" aria-label={summary} tabIndex={0} onKeyDown={move} onBlur={() => setAt(null)} onPointerLeave={() => setAt(null)}>
        {[0, 0.5, 1].map((part) => (
          <g key={part}>
            <line class={part ? 'grid' : 'axis'} x1={left} x2={width} y1={y(part * top)} y2={y(part * top)} />
            {(part !== 0.5 || top > 1) && (
              <text x={left - 8} y={y(part * top) + 4} text-anchor="end">
                {compact(part * top)}
              </text>
            )}
          </g>
        ))}
        {all.map((b, i) => (
          <g key={i} class={i === at ? 'chosen' : ''} onPointerEnter={() => setAt(i)}>
            <rect class="hit" x={left + i * step} y={0} width={step} height={height - below} />
            {b.n > 0 && (
              <rect class={b.now ? 'bar now' : 'bar'} x={left + i * step + step * 0.14} width={step * 0.72} y={Math.min(y(b.n), height - below - 2)} height={Math.max(2, height - below - y(b.n))} rx={Math.min(3, step * 0.2)} />
            )}
            {(b.now || (i % every === 0 && i + every / 2 < all.length)) && (
              <text x={left + (i + 0.5) * step} y={height - 5} text-anchor="middle" class={b.now && b.n ? 'due' : ''}>
                {b.now ? t('now') : label(b.from)}
              </text>
            )}
          </g>
        ))}
      </svg>
      <figcaption class="caption">
        <span aria-live="polite">{at !== null ? says(at) : empty ? t('noneInSight') : summary}</span>
        {later > 0 && <span>{t('later', { n: later })}</span>}
      </figcaption>
      <details>
        <summary>{t('asTable')}</summary>
        <table>
          <thead>
            <tr>
              <th scope="col">{t('from')}</th>
              <th scope="col">{t('until')}</th>
              <th scope="col" class="right">
                {t('documents')}
              </th>
            </tr>
          </thead>
          <tbody>
            {all.map((b, i) => (
              <tr key={i}>
                {b.now ? <td colSpan={2}>{t('dueNow')}</td> : [<td key="f">{full(b.from)}</td>, <td key="t">{full(b.to)}</td>]}
                <td class="right num">{compact(b.n)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </details>
    </figure>
  );
}

/** A forecast in a row of a table; the numbers are beside it. */
export function Spark({ bars }: { bars: Bar[] }) {
  const top = Math.max(1, ...bars.map((b) => b.n));
  return (
    <svg class="spark" viewBox={`0 0 ${bars.length * 4} 22`} preserveAspectRatio="none" aria-hidden="true">
      {bars.map((b, i) => b.n > 0 && <rect key={i} x={i * 4} width={3} y={22 - Math.max(1.5, (22 * b.n) / top)} height={Math.max(1.5, (22 * b.n) / top)} />)}
    </svg>
  );
}
