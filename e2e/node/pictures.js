// Pictures of pages: made small, and compared. A browser reads PNG and scales; what is written has few colours.
import zlib from 'node:zlib';

export class Pictures {
  static async open(browser) {
    const pictures = new Pictures();
    pictures.page = await browser.newPage();
    await pictures.page.evaluate(() => {
      globalThis.bitmap = async (png) => createImageBitmap(await (await fetch(`data:image/png;base64,${png}`)).blob());
      globalThis.pixels = (bits, width, height) => {
        const g = new OffscreenCanvas(width, height).getContext('2d');
        g.imageSmoothingQuality = 'high';
        g.drawImage(bits, 0, 0, width, height);
        return g.getImageData(0, 0, width, height).data;
      };
    });
    return pictures;
  }

  close() { return this.page.close(); }

  // A picture in its commonest colours, and half as large if it is wide.
  async small(png) {
    const [width, height] = [16, 20].map((at) => png.readUInt32BE(at) / (png.readUInt32BE(16) > 1000 ? 2 : 1));
    const rgba = await this.page.evaluate(async ([text, width, height]) => {
      const data = globalThis.pixels(await globalThis.bitmap(text), width, height);
      return btoa(data.reduce((all, b) => all + String.fromCharCode(b), ''));
    }, [png.toString('base64'), width, height]);
    return indexed(width, height, Buffer.from(rgba, 'base64'));
  }

  // What part of a small picture another one has otherwise, by squares of fifteen pixels.
  difference(small, other) {
    return this.page.evaluate(async (texts) => {
      const bits = await Promise.all(texts.map(globalThis.bitmap));
      const [a, b] = bits.map((x) => globalThis.pixels(x, Math.round(bits[0].width / 15), Math.round(bits[0].height / 15)));
      let n = 0;
      for (let i = 0; i < a.length; i += 4) if (Math.max(...[0, 1, 2].map((c) => Math.abs(a[i + c] - b[i + c]))) > 24) n++;
      return Math.round((4000 * n) / a.length) / 1000;
    }, [small, other].map((png) => png.toString('base64')));
  }
}

const colours = 128;

// A PNG of a palette, of pixels of four bytes.
function indexed(width, height, rgba) {
  const count = new Map();
  for (let i = 0; i < rgba.length; i += 4) {
    const c = rgba.readUIntBE(i, 3);
    count.set(c, (count.get(c) ?? 0) + 1);
  }
  const palette = [...count].sort((a, b) => b[1] - a[1]).slice(0, colours).map(([c]) => c);
  const parts = (c) => [c >> 16, (c >> 8) & 255, c & 255];
  const distance = (a, b) => parts(a).reduce((sum, x, i) => sum + (x - parts(b)[i]) ** 2, 0);
  const nearest = new Map([...count.keys()].map((c) => [c, palette.reduce((best, p, i) => (distance(c, p) < distance(c, palette[best]) ? i : best), 0)]));
  const rows = Buffer.alloc((width + 1) * height); // each begins with 0: no filter
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) rows[y * (width + 1) + 1 + x] = nearest.get(rgba.readUIntBE(4 * (y * width + x), 3));
  }
  const header = Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, 8, 3, 0, 0, 0]); // 8 bits, a palette
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  const chunks = [['IHDR', header], ['PLTE', Buffer.from(palette.flatMap(parts))], ['IDAT', zlib.deflateSync(rows, { level: 9 })], ['IEND', Buffer.alloc(0)]];
  return Buffer.concat([Buffer.from('89504e470d0a1a0a', 'hex'), ...chunks.flatMap(([name, data]) => {
    const body = Buffer.concat([Buffer.from(name), data]);
    const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
    length.writeUInt32BE(data.length);
    sum.writeUInt32BE(zlib.crc32(body));
    return [length, body, sum];
  })]);
}
