// The dashboard: reads /metrics every two seconds, keeps five minutes, draws.
import { chart } from './chart.js';
import { parseMetrics, perSecond, quantile, total } from './metrics.js';
import { applyTheme } from './store.js';
import { call } from './stream.js';

const $ = (id) => document.getElementById(id);
const kInterval = 2, kSpan = 300;

const gauge = (name, wanted) => (before, after) => total(after, name, wanted);
const rate = (name) => (before, after, seconds) => perSecond(before, after, name, seconds);
const share = (name, at) => (before, after) => quantile(before, after, name, at);

function hitRate(before, after) {
  const looked = total(after, 'vllm:prefix_cache_queries_total') - total(before, 'vllm:prefix_cache_queries_total');
  const found = total(after, 'vllm:prefix_cache_hits_total') - total(before, 'vllm:prefix_cache_hits_total');
  return looked > 0 ? found / looked : NaN;
}

// A chart a row: title, unit, and how each series follows from two readings.
const kCharts = [
  { title: 'Tokens per second', series: { generated: rate('vllm:generation_tokens_total'), prompt: rate('vllm:prompt_tokens_total') } },
  { title: 'Requests', series: { running: gauge('vllm:num_requests_running'), waiting: gauge('vllm:num_requests_waiting') } },
  { title: 'Time to the first token', unit: 's', series: { median: share('vllm:time_to_first_token_seconds', .5), '95 %': share('vllm:time_to_first_token_seconds', .95) } },
  { title: 'Time between tokens', unit: 's', series: { median: share('vllm:inter_token_latency_seconds', .5), '95 %': share('vllm:inter_token_latency_seconds', .95) } },
  { title: 'Memory for keys and values', unit: '%', most: 1, series: { 'in use': gauge('vllm:kv_cache_usage_perc') } },
  { title: 'Prompt tokens found in the cache', unit: '%', most: 1, series: { found: hitRate } },
  { title: 'Requests ended, per second', series: { all: rate('rose:requests_total') } },
  { title: 'Memory of the process', unit: 'B', series: { resident: gauge('process_resident_memory_bytes') } },
];

const drawn = kCharts.map((row) => ({
  compute: Object.values(row.series), samples: [],
  ...chart({ ...row, series: Object.keys(row.series) }, kSpan),
}));
$('charts').append(...drawn.map(({ node }) => node));

let last = null, paused = false;

function take(families, time) {
  if (last) {
    for (const one of drawn) {
      one.samples.push({ time, values: one.compute.map((value) => value(last.families, families, time - last.time)) });
      while (one.samples[0].time < time - kSpan) one.samples.shift();
      one.draw(one.samples);
    }
  }
  last = { families, time };
}

async function read() {
  try {
    const response = await call('/metrics', { key: sessionStorage.getItem('rose.key') ?? '' });
    const families = parseMetrics(await response.text());
    take(families, performance.now() / 1000);
    $('ask-key').hidden = true;
    const started = total(families, 'process_start_time_seconds');
    const requests = total(families, 'rose:requests_total');
    $('state').textContent = `${requests} requests since the start` +
      (started > 0 ? `, up ${((Date.now() / 1000 - started) / 60).toFixed(0)} min` : '');
  } catch (error) {
    $('state').textContent = `no answer: ${error.message}`;
    if (error.message.startsWith('401')) $('ask-key').hidden = false;
  }
}

applyTheme($('theme'));
$('theme').addEventListener('click', () => applyTheme($('theme'), true));
$('pause').addEventListener('click', () => {
  paused = !paused;
  $('pause').ariaPressed = String(paused);
});
$('ask-key').addEventListener('submit', (event) => {
  event.preventDefault();
  sessionStorage.setItem('rose.key', $('key').value);
  read();
});
read();
setInterval(() => { if (!paused) read(); }, kInterval * 1000);
