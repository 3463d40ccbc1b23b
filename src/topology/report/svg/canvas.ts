/**
 * A picture in the making: shapes and texts of a stand-alone SVG, with the room they take.
 *
 * Colours come from classes with a light and a dark form. Widths of texts are estimated from the number of characters,
 * so that texts can be cut to fit without fonts at hand.
 */

/** Width of an average character, parts of the font size. */
const CHARACTER_WIDTH = 0.57;
const STRONG_CHARACTER_WIDTH = 0.64;

/** Pixels around the picture. */
const MARGIN = 16;

export interface TextOptions {
  readonly size?: number;
  readonly anchor?: 'start' | 'middle' | 'end';
  /** Classes for colour and weight. */
  readonly className?: string;
  /** Longer texts are cut and end in an ellipsis. */
  readonly maxWidth?: number;
}

/** Font size where none is given, pixels. */
const TEXT_SIZE = 12;

/** Estimated pixels of a text. */
export const textWidth = (text: string, size: number = TEXT_SIZE, strong = false): number =>
  [...text].length * size * (strong ? STRONG_CHARACTER_WIDTH : CHARACTER_WIDTH);

/** The text, or as much of it as fits. */
function fitted(text: string, size: number, strong: boolean, maxWidth: number): string {
  const room = Math.floor(maxWidth / textWidth('m', size, strong));
  const characters = [...text];
  return characters.length <= room ? text : `${characters.slice(0, Math.max(1, room - 1)).join('')}…`;
}

/** For text and attribute values; control characters, which no XML may hold, are left out. */
export const escapeXml = (text: string): string =>
  text
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters that XML forbids
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ud800-\udfff\ufffe\uffff]/gu, '')
    .replace(/&/g, '&amp;')
    .replace(/</g, '&lt;')
    .replace(/>/g, '&gt;')
    .replace(/"/g, '&quot;');

export class Canvas {
  readonly #parts: string[] = [];
  #right = 0;
  #bottom = 0;

  #reach(x: number, y: number): void {
    this.#right = Math.max(this.#right, x);
    this.#bottom = Math.max(this.#bottom, y);
  }

  /** A box with round corners. */
  box(x: number, y: number, width: number, height: number, className: string, radius = 5): void {
    this.#parts.push(
      `<rect x="${n(x)}" y="${n(y)}" width="${n(width)}" height="${n(height)}" rx="${radius}" class="${className}"/>`,
    );
    this.#reach(x + width, y + height);
  }

  /** A line through points. */
  line(points: readonly (readonly [number, number])[], className: string, arrow = false): void {
    const path = points.map(([x, y]) => `${n(x)},${n(y)}`).join(' ');
    this.#parts.push(
      `<polyline points="${path}" class="${className}"${arrow ? ' marker-end="url(#arrow)"' : ''}/>`,
    );
    for (const [x, y] of points) this.#reach(x, y);
  }

  /** A curve below two points of the same height, `depth` pixels at its lowest. */
  arc(x1: number, x2: number, y: number, depth: number, className: string): void {
    // The middle of a cubic curve reaches three quarters of the way to its control points.
    const low = y + depth / 0.75;
    this.#parts.push(
      `<path d="M${n(x1)},${n(y)} C${n(x1)},${n(low)} ${n(x2)},${n(low)} ${n(x2)},${n(y)}" class="${className}"/>`,
    );
    this.#reach(Math.max(x1, x2), y + depth);
  }

  /** One line of text with its base line at `y`. */
  text(x: number, y: number, text: string, options: TextOptions = {}): void {
    const { size = TEXT_SIZE, anchor = 'start', className = 'text', maxWidth } = options;
    const strong = className.includes('strong');
    const shown = maxWidth === undefined ? text : fitted(text, size, strong, maxWidth);
    const place = anchor === 'start' ? '' : ` text-anchor="${anchor}"`;
    this.#parts.push(
      `<text x="${n(x)}" y="${n(y)}" font-size="${size}"${place} class="${className}">${escapeXml(shown)}</text>`,
    );
    const width = textWidth(shown, size, strong);
    const right = { start: x + width, middle: x + width / 2, end: x }[anchor];
    this.#reach(right, y + size * 0.3);
  }

  /** The whole document. */
  toSvg(title: string, style: string): string {
    const width = Math.ceil(this.#right + MARGIN);
    const height = Math.ceil(this.#bottom + MARGIN);
    return [
      `<svg xmlns="http://www.w3.org/2000/svg" role="img" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="system-ui, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif">`,
      `<title>${escapeXml(title)}</title>`,
      `<style>${style}</style>`,
      '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="5" markerHeight="5" orient="auto-start-reverse"><path d="M0,0 L8,4 L0,8 z" class="arrow"/></marker></defs>',
      `<rect width="${width}" height="${height}" class="paper"/>`,
      ...this.#parts,
      '</svg>',
      '',
    ].join('\n');
  }
}

/** A coordinate without needless digits. */
const n = (value: number): string => String(Math.round(value * 10) / 10);
