// A circle of cells, each of a colour, and zones around it. It is painted once; pointing at it draws no more than that picture and an arc.
import { useEffect, useRef, useState } from 'preact/hooks';
import { cellCount, type ChunkMap } from '../cluster';

const turn = (2 * Math.PI) / cellCount;
const top = -Math.PI / 2;

/** colors gives the colours of the shards, and ink that of what is pointed at. */
export function Ring({ map, label, point, colors, ink }: { map: ChunkMap; label: string; point: (cell: number | null) => void; colors: () => string[]; ink: () => string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const picture = useRef<HTMLCanvasElement | undefined>(undefined);
  const [at, setAt] = useState<number | null>(null);
  const [drawn, redraw] = useState(0);
  const size = () => Math.round(canvas.current!.clientWidth * devicePixelRatio);

  const show = (cell: number | null) => {
    const g = canvas.current!.getContext('2d')!, s = size();
    g.clearRect(0, 0, s, s);
    g.drawImage(picture.current!, 0, 0);
    if (cell === null) return;
    g.strokeStyle = ink();
    g.lineWidth = s * 0.2;
    g.beginPath();
    g.arc(s / 2, s / 2, s * 0.34, top + cell * turn - 0.006, top + (cell + 1) * turn + 0.006);
    g.stroke();
  };
  useEffect(() => {
    const s = size();
    canvas.current!.width = canvas.current!.height = s;
    picture.current = paint(map, s, colors());
    show(at);
  }, [map.cells, drawn]);
  useEffect(() => show(at), [at]);
  useEffect(() => {
    const again = () => redraw((n) => n + 1);
    const sized = new ResizeObserver(again);
    sized.observe(canvas.current!);
    const dark = matchMedia('(prefers-color-scheme: dark)');
    dark.addEventListener('change', again);
    const themed = new MutationObserver(again);
    themed.observe(document.documentElement, { attributeFilter: ['data-theme'] });
    return () => {
      sized.disconnect();
      dark.removeEventListener('change', again);
      themed.disconnect();
    };
  }, []);
  const choose = (cell: number | null) => {
    setAt(cell);
    point(cell);
  };
  const pointed = (e: PointerEvent) => {
    const r = canvas.current!.getBoundingClientRect();
    const x = e.clientX - r.left - r.width / 2, y = e.clientY - r.top - r.height / 2;
    if (Math.hypot(x, y) < r.width * 0.2 || Math.hypot(x, y) > r.width / 2) return choose(null);
    choose(Math.floor((((Math.atan2(y, x) - top + 2 * Math.PI) % (2 * Math.PI)) / turn)) % cellCount);
  };
  /** To the next cell of another shard, or a sixteenth of the circle. */
  const move = (e: KeyboardEvent) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
    const far = { PageDown: cellCount / 16, PageUp: -cellCount / 16 }[e.key];
    if (by === undefined && far === undefined && e.key !== 'Home' && e.key !== 'End') return;
    e.preventDefault();
    let next = at ?? (by === -1 || e.key === 'End' ? 0 : cellCount - 1);
    if (e.key === 'Home') next = 0;
    else if (e.key === 'End') next = cellCount - 1;
    else if (far !== undefined) next = (next + far + cellCount) % cellCount;
    else for (let i = 0, was = map.cells[next]; i < cellCount; i++) {
      next = (next + by! + cellCount) % cellCount;
      if (map.cells[next] !== was || at === null) break;
    }
    choose(next);
  };
  return <canvas ref={canvas} class="ring" role="img" tabIndex={0} aria-label={label} onPointerMove={pointed} onPointerLeave={() => choose(null)} onKeyDown={move} onBlur={() => choose(null)} />;
}

/** Draws the circle once: an arc for each run of cells of a shard. */
function paint(map: ChunkMap, s: number, colors: string[]): HTMLCanvasElement {
  const out = document.createElement('canvas');
  out.width = out.height = s;
  const g = out.getContext('2d')!;
  const arc = (r: number, width: number, from: number, to: number, color: string) => {
    g.strokeStyle = color;
    g.lineWidth = width;
    g.beginPath();
    g.arc(s / 2, s / 2, r, top + from, top + to);
    g.stroke();
  };
  for (let from = 0; from < cellCount; ) {
    let to = from + 1;
    while (to < cellCount && map.cells[to] === map.cells[from]) to++;
    const color = colors[map.cells[from]!];
    if (color) arc(s * 0.34, s * 0.16, from * turn, to * turn + 0.0005, color);
    from = to;
  }
  map.zones.forEach((z, i) => arc(s * 0.46, s * 0.03, z.from * 2 * Math.PI, z.to * 2 * Math.PI, colors[(colors.length - 1 - (i % colors.length))]!));
  return out;
}
