// Lines over the last hour. What they were at a time is in a table below, which the keyboard reaches as well.
import { useEffect, useRef, useState } from 'preact/hooks';
import UPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { t, time } from '../i18n';

export interface Line {
  name: string;
  values: (number | null)[];
}

const height = 168;
const hour = 3600;
const least = 300; // seconds that are shown where there are no more

export function Lines({ title, times, lines, format }: { title: string; times: number[]; lines: Line[]; format: (v: number) => string }) {
  const box = useRef<HTMLDivElement>(null);
  const legend = useRef<HTMLTableElement>(null);
  const plot = useRef<UPlot | undefined>(undefined);
  const [at, setAt] = useState<number | null>(null);
  const data = () => [times, ...lines.map((l) => l.values)] as UPlot.AlignedData;
  const names = lines.map((l) => l.name).join();
  useEffect(() => {
    const color = (i: number) => () => getComputedStyle(legend.current!.querySelectorAll('.swatch')[i]!).backgroundColor;
    const ink = () => getComputedStyle(legend.current!.querySelector('th')!).color;
    const grid = { stroke: () => getComputedStyle(box.current!).borderTopColor, width: 1 };
    const font = '11px Inter, system-ui, sans-serif';
    const u = new UPlot(
      {
        width: box.current!.clientWidth, height, legend: { show: false }, cursor: { drag: { x: false, y: false }, y: false },
        scales: { x: { time: true, range: (_, first) => { const end = Date.now() / 1000; return [Math.min(end - least, Math.max(end - hour, first ?? 0)), end]; } }, y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] } },
        series: [{}, ...lines.map((_, i) => ({ stroke: color(i), width: 1.5, points: { show: false } }))],
        axes: [
          { stroke: ink, grid: { show: false }, ticks: { show: false }, font, size: 28, space: 70, values: (_, all) => all.map((v) => time(new Date(v * 1000), { hour: '2-digit', minute: '2-digit' })) },
          { stroke: ink, grid, ticks: { show: false }, font, size: 64, space: 40, values: (_, all) => all.map(format) },
        ],
        hooks: { setCursor: [(self) => setAt(self.cursor.idx ?? null)] },
      },
      data(), box.current!,
    );
    plot.current = u;
    const size = new ResizeObserver(() => u.setSize({ width: box.current!.clientWidth, height }));
    size.observe(box.current!);
    const dark = matchMedia('(prefers-color-scheme: dark)');
    const redraw = () => u.redraw(false, true);
    dark.addEventListener('change', redraw);
    return () => {
      dark.removeEventListener('change', redraw);
      size.disconnect();
      u.destroy();
    };
  }, [names]);
  useEffect(() => plot.current?.setData(data()), [times]);
  const move = (e: KeyboardEvent) => {
    const by = { ArrowRight: 1, ArrowLeft: -1, PageUp: -60, PageDown: 60, Home: -Infinity, End: Infinity }[e.key];
    if (by === undefined || !plot.current || times.length === 0) return;
    e.preventDefault();
    const next = Math.min(times.length - 1, Math.max(0, (at ?? times.length) + by));
    plot.current.setCursor({ left: plot.current.valToPos(times[next]!, 'x'), top: 10 });
  };
  const shown = at ?? times.length - 1;
  const text = (v: number | null | undefined) => (v === null || v === undefined ? '–' : format(v));
  return (
    <section class="card lines" aria-label={title}>
      <div class="card-head">
        <h2>{title}</h2>
        <span class="small quiet num">{times[shown] !== undefined && time(new Date(times[shown]! * 1000), { timeStyle: 'medium' })}</span>
      </div>
      <div ref={box} class="plot" tabIndex={0} role="img" aria-label={t('linesOf', { title })} onKeyDown={move} onBlur={() => plot.current?.setCursor({ left: -10, top: -10 })} />
      <table ref={legend}>
        <thead>
          <tr>
            <th scope="col">{t('line')}</th>
            <th scope="col" class="right">{at === null ? t('now') : t('then')}</th>
            <th scope="col" class="right">{t('most')}</th>
          </tr>
        </thead>
        <tbody>
          {lines.map((l, i) => (
            <tr key={l.name}>
              <th scope="row">
                <span class={`swatch s${i + 1}`} aria-hidden="true" />
                {l.name}
              </th>
              <td class="right num">{text(l.values[shown])}</td>
              <td class="right num">{text(l.values.reduce<number | null>((m, v) => (v !== null && (m === null || v > m) ? v : m), null))}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
