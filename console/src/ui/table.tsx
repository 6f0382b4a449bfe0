// A table, which scrolls by itself where it is wider than the page.
import type { ComponentChildren } from 'preact';

/** A column: its name, what a row has there, and the classes of its cells.. */
export type Column<T> = [name: ComponentChildren, cell: (row: T) => ComponentChildren, classes?: string];

/** A name that only screen readers are told: of a column of buttons. */
export const Unseen = ({ name }: { name: string }) => <span class="hidden">{name}</span>;

/** id tells rows apart when others come and go: by their place without it. */
export const Table = <T,>({ label, columns, rows, id, classes }: { label: string; columns: Column<T>[]; rows: T[]; id?: (row: T) => string | number; classes?: string }) => (
  <div class="scroll" tabIndex={0} role="region" aria-label={label}>
    <table class={classes}>
      <thead>
        <tr>
          {columns.map(([name, , of], i) => (
            <th key={i} scope="col" class={of?.includes('right') ? 'right' : undefined}>
              {name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row, i) => (
          <tr key={id ? id(row) : i}>
            {columns.map(([, cell, of], j) => (
              <td key={j} class={of}>
                {cell(row)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  </div>
);
