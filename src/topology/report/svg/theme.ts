/**
 * Colours of the picture, for light and for dark surroundings.
 */

/** Colours of channels, told apart by most people with impaired colour vision too: [light, dark]. */
const CHANNEL_COLOURS: readonly (readonly [string, string])[] = [
  ['#0072b2', '#56b4e9'],
  ['#c1440e', '#f08a5d'],
  ['#00795a', '#35c49a'],
  ['#a2477f', '#dd8fbf'],
  ['#8a6d00', '#e0c341'],
  ['#5b4bb7', '#a397f0'],
];

/** Class of the n-th order of channels. */
export const channelClass = (order: number): string => `c${order % CHANNEL_COLOURS.length}`;

interface Colours {
  readonly paper: string;
  readonly ink: string;
  readonly faint: string;
  readonly band: string;
  readonly line: string;
  readonly cpu: string;
  readonly pci: string;
  readonly gpu: string;
  readonly nic: string;
  readonly nvlink: string;
  readonly fabric: string;
}

const LIGHT: Colours = {
  paper: '#ffffff',
  ink: '#1b1f24',
  faint: '#57606a',
  band: '#f3f5f7',
  line: '#8c959f',
  cpu: '#dce9f7',
  pci: '#e9ebee',
  gpu: '#dcf2d6',
  nic: '#fdebcf',
  nvlink: '#4c9a2a',
  fabric: '#c9e7bd',
};

const DARK: Colours = {
  paper: '#0d1117',
  ink: '#e6edf3',
  faint: '#9aa4af',
  band: '#161b22',
  line: '#6e7681',
  cpu: '#1c3350',
  pci: '#272c33',
  gpu: '#1d3b1a',
  nic: '#473214',
  nvlink: '#6cc644',
  fabric: '#2b5523',
};

function rules(colours: Colours, dark: 0 | 1): string {
  const { paper, ink, faint, band, line, cpu, pci, gpu, nic, nvlink, fabric } = colours;
  const box = (name: string, fill: string) => `.${name}{fill:${fill};stroke:${line};stroke-width:1}`;
  return [
    `.paper{fill:${paper}}.band{fill:${band}}`,
    `.text{fill:${ink}}.faint{fill:${faint}}.arrow{fill:${line}}`,
    box('cpu', cpu),
    box('pci', pci),
    box('gpu', gpu),
    box('nic', nic),
    box('fabric', fabric),
    `.chip{fill:${paper};stroke-width:1.5}`,
    `.wire{fill:none;stroke:${line};stroke-width:1.5}`,
    `.nvlink{fill:none;stroke:${nvlink}}`,
    ...CHANNEL_COLOURS.map((pair, at) => `.c${at}{stroke:${pair[dark]}}`),
  ].join('');
}

/** The style sheet. */
export const STYLE_SHEET = [
  rules(LIGHT, 0),
  `.flow{fill:none;stroke-width:1.5}.net{stroke-dasharray:4 3}.strong{font-weight:600}.w1{stroke-width:1.5}.w2{stroke-width:2.5}.w3{stroke-width:3.5}`,
  `@media (prefers-color-scheme:dark){${rules(DARK, 1)}}`,
].join('');
