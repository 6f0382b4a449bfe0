import { defineConfig } from 'vite';

// What is built is committed: names come from contents, and nothing of the machine goes in.
export default defineConfig({
  base: '/',
  publicDir: 'public',
  build: {
    outDir: '../internal/console/assets',
    emptyOutDir: true,
    target: 'es2022',
    cssTarget: ['chrome123', 'firefox121', 'safari17.5'], // light-dark()
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    sourcemap: false,
    reportCompressedSize: false,
  },
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
});
