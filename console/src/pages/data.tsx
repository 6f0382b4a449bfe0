// Which collections there are: thousands are listed and searched.
import { useEffect, useRef, useState } from 'preact/hooks';
import { collections, type Named } from '../collections';
import { t } from '../i18n';
import { to } from '../route';
import { Failure, useAnswer } from '../ui/parts';
import { Documents } from './documents';

export const Data = ({ db, coll }: { db?: string; coll?: string }) => (db && coll ? <Documents db={db} coll={coll} /> : <All />);

function All() {
  const all = useAnswer(collections, []);
  const [text, search] = useState('');
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = all.value?.filter((c) => words.every((w) => `${c.db}.${c.name}`.toLowerCase().includes(w)));
  return (
    <>
      <div class="head">
        <div>
          <h1>{t('dataTitle')}</h1>
          <p aria-live="polite">{found ? t('nCollections', { n: found.length }) : ''}</p>
        </div>
        <label class="search">
          <span class="hidden">{t('search')}</span>
          <input type="search" placeholder={t('search')} value={text} onInput={(e) => search(e.currentTarget.value)} spellcheck={false} />
        </label>
      </div>
      {all.error !== undefined && <Failure error={all.error} again={all.again} />}
      {found ? <Rows all={found} /> : !all.error && <p class="quiet">{t('loading')}…</p>}
    </>
  );
}

const rowHeight = 40;
const beyond = 10; // rows that are there before they are seen

/** Only the rows that are in sight are in the page. */
function Rows({ all }: { all: Named[] }) {
  const box = useRef<HTMLDivElement>(null);
  const [[top, height], see] = useState([0, 1000]);
  useEffect(() => {
    const look = () => {
      const r = box.current!.getBoundingClientRect();
      see([Math.max(0, -r.top), innerHeight]);
    };
    look();
    addEventListener('scroll', look, { passive: true });
    addEventListener('resize', look);
    return () => {
      removeEventListener('scroll', look);
      removeEventListener('resize', look);
    };
  }, []);
  if (all.length === 0) return <div class="card empty">{t('noCollections')}</div>;
  const first = Math.max(0, Math.floor(top / rowHeight) - beyond);
  const rows = all.slice(first, Math.ceil((top + height) / rowHeight) + beyond);
  return (
    <div class="card rows">
      <div ref={box} style={{ height: `${all.length * rowHeight}px` }}>
        <ul style={{ transform: `translateY(${first * rowHeight}px)` }}>
          {rows.map((c, i) => (
            <li key={`${c.db}.${c.name}`} aria-setsize={all.length} aria-posinset={first + i + 1}>
              <a href={to('data', c.db, c.name)}>
                <span class="mono quiet">{c.db}.</span>
                <span class="mono">{c.name}</span>
              </a>
              {c.type !== 'collection' && <span class="quiet small">{c.type}</span>}
            </li>
          ))}
        </ul>
      </div>
    </div>
  );
}
