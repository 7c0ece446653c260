// Prometheus text, read; and what can be told from two readings.

// name -> [{labels, value}]
export function parseMetrics(text) {
  const families = new Map();
  for (const line of text.split('\n')) {
    const found = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line);
    if (!found) continue;
    const labels = {};
    for (const [, name, value] of (found[2] ?? '').matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) labels[name] = value;
    const value = found[3] === '+Inf' ? Infinity : Number(found[3]);
    if (!families.has(found[1])) families.set(found[1], []);
    families.get(found[1]).push({ labels, value });
  }
  return families;
}

const matches = (labels, wanted) => Object.entries(wanted).every(([name, value]) => labels[name] === value);

// The sum over all series of a name that have these labels.
export function total(families, name, wanted = {}) {
  return (families.get(name) ?? []).filter(({ labels }) => matches(labels, wanted))
    .reduce((sum, { value }) => sum + value, 0);
}

export function perSecond(before, after, name, seconds) {
  return seconds > 0 ? Math.max(0, total(after, name) - total(before, name)) / seconds : 0;
}

// A quantile of what a histogram took in between two readings; NaN if that is nothing.
export function quantile(before, after, name, share) {
  const bounds = new Map();
  for (const [families, sign] of [[after, 1], [before, -1]])
    for (const { labels, value } of families.get(`${name}_bucket`) ?? []) {
      const bound = labels.le === '+Inf' ? Infinity : Number(labels.le);
      bounds.set(bound, (bounds.get(bound) ?? 0) + sign * value);
    }
  const sorted = [...bounds].sort((a, b) => a[0] - b[0]);
  const count = sorted.at(-1)?.[1] ?? 0;
  if (!(count > 0)) return NaN;
  let low = 0, below = 0;
  for (const [bound, upTo] of sorted) {
    if (upTo >= share * count && upTo > below)
      return bound === Infinity ? low : low + (bound - low) * (share * count - below) / (upTo - below);
    low = bound;
    below = upTo;
  }
  return low;
}
