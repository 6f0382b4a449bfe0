// Addresses are hashes: #/expiry/shop/carts.
import { signal } from '@preact/signals';

const read = () => {
  try {
    return location.hash.replace(/^#\/?/, '').split('/').filter(Boolean).map(decodeURIComponent);
  } catch {
    return [];
  }
};

/** The parts of the address, decoded. */
export const route = signal<string[]>(read());
addEventListener('hashchange', () => (route.value = read()));

/** The address of parts. */
export const to = (...parts: string[]) => `#/${parts.map(encodeURIComponent).join('/')}`;

export const go = (...parts: string[]) => {
  location.hash = to(...parts);
};
