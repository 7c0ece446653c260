// Lines over time as SVG.
import { element } from './markdown.js';

const kWidth = 320, kHeight = 120, kLeft = 40, kBottom = 14;

function svg(name, attributes, ...children) {
  const node = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

// 0.0042 -> "4.2 ms" for seconds, 12345 -> "12.3 k" otherwise.
export function show(value, unit) {
  if (!Number.isFinite(value)) return '–';
  if (unit === 's') return value < 1 ? `${(value * 1000).toPrecision(3)} ms` : `${value.toPrecision(3)} s`;
  if (unit === '%') return `${(value * 100).toFixed(1)} %`;
  if (unit === 'B') return `${(value / 2 ** 20).toFixed(0)} MiB`;
  if (value >= 1e6) return `${(value / 1e6).toPrecision(3)} M`;
  if (value >= 1e4) return `${(value / 1e3).toPrecision(3)} k`;
  return Number.isInteger(value) ? String(value) : value.toPrecision(3);
}

// The next of 1, 2, 5, 10, … that holds the value.
function roundUp(value) {
  if (!(value > 0)) return 1;
  const ten = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((digit) => digit * ten).find((bound) => bound >= value * 0.999);
}

// A card; draw(samples) has {time, values: [one for each series]} of the last `span` seconds.
export function chart({ title, unit, series, most }, span) {
  const now = element('ul', { className: 'now' });
  const numbers = series.map((name, at) => {
    const number = element('b', { textContent: '–' });
    now.append(element('li', {}, element('span', { className: `swatch series-${at + 1}` }), number, ` ${name}`));
    return number;
  });
  const plot = svg('svg', { viewBox: `0 0 ${kWidth} ${kHeight}`, role: 'img', 'aria-label': title });
  const node = element('figure', { className: 'card' }, element('h2', {}, title), now, plot);

  const draw = (samples) => {
    const end = samples.at(-1)?.time ?? 0;
    const values = samples.flatMap((sample) => sample.values).filter(Number.isFinite);
    const top = most ?? roundUp(Math.max(0, ...values));
    const x = (time) => kLeft + (kWidth - kLeft) * (1 - (end - time) / span);
    const y = (value) => 6 + (kHeight - kBottom - 6) * (1 - Math.min(value, top) / top);
    plot.replaceChildren(
      ...[0, .5, 1].flatMap((share) => [
        svg('line', { class: 'grid', x1: kLeft, x2: kWidth, y1: y(top * share), y2: y(top * share) }),
        svg('text', { x: kLeft - 5, y: y(top * share) + 4, 'text-anchor': 'end' }, show(top * share, unit))]),
      ...series.map((_, at) => svg('polyline', { class: `series-${at + 1}`, points: samples
        .filter((sample) => Number.isFinite(sample.values[at]))
        .map((sample) => `${x(sample.time).toFixed(1)},${y(sample.values[at]).toFixed(1)}`).join(' ') })));
    series.forEach((name, at) => { numbers[at].textContent = show(samples.at(-1)?.values[at], unit); });
    plot.setAttribute('aria-label', `${title}: ${series.map((name, at) => `${name} ${numbers[at].textContent}`).join(', ')}`);
  };
  return { node, draw };
}
