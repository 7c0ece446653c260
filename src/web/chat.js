// The chat page: what is shown, and what happens when something is pressed.
import { answer, requestBody } from './answer.js';
import { element } from './markdown.js';
import { allChats, applyTheme, keep, keepSettings, remove, removeAll, restoreSettings } from './store.js';
import { json } from './stream.js';
import { demoTools, ownTools, runDemo } from './tools.js';
import { turn } from './view.js';

const $ = (id) => document.getElementById(id);
const controls = [...document.querySelectorAll('#settings input, #settings textarea, #settings select')];
const kMostRounds = 10;  // of tools that answer by themselves

const fresh = () => ({ id: crypto.randomUUID?.() ?? String(Math.random()), title: '', messages: [] });
let chat = fresh();
let running = null;  // the AbortController of the answer that is coming

// --- settings

const kNumbers = ['temperature', 'top_p', 'top_k', 'min_p', 'presence_penalty', 'frequency_penalty', 'max_tokens', 'seed'];

function settings() {
  const sampling = {};
  for (const name of kNumbers) if ($(name).value !== '') sampling[name] = Number($(name).value);
  if ($('stop_text').value) sampling.stop = $('stop_text').value;
  return { sampling, effort: $('effort').value, system: $('system').value.trim() };
}

// Null: the definitions are wrong, and the page says how.
function tools() {
  try {
    const own = ownTools($('tools').value);
    $('tools-problem').textContent = '';
    return [...$('demo_tools').checked ? demoTools() : [], ...own];
  } catch (error) {
    $('tools-problem').textContent = `The tools are no good: ${error.message}`;
    return null;
  }
}

// --- drawing

function results({ messages }) {
  return new Map(messages.filter((message) => message.role === 'tool')
    .map((message) => [message.tool_call_id, message.content]));
}

function unanswered(one) {
  const known = results(one);
  return (one.messages.findLast((message) => message.role === 'assistant')?.tool_calls ?? [])
    .filter((call) => !known.has(call.id));
}

function draw() {
  const known = results(chat);
  const last = chat.messages.findLastIndex((message) => message.role !== 'tool');
  $('turns').replaceChildren(...chat.messages.flatMap((message, at) => message.role === 'tool' ? [] : [turn(message, {
    results: known,
    showRaw: $('raw').checked,
    openReasoning: $('open_reasoning').checked,
    answer: running ? null : answerCall,
    again: running ? null : message.role === 'user' ? () => edit(at)
      : at === last ? () => again() : null,
  })]));
  $('send').hidden = running !== null;
  $('stop').hidden = running === null;
  $('turns').ariaBusy = String(running !== null);
  drawChats();
}

function drawChats() {
  $('chats').replaceChildren(...allChats().map((known) => {
    const open = element('button', { type: 'button', className: 'quiet open', textContent: known.title || 'Untitled' });
    if (known.id === chat.id) open.ariaCurrent = 'true';
    open.addEventListener('click', () => show(known));
    const gone = element('button', { type: 'button', className: 'quiet', textContent: '✕', ariaLabel: `Delete ${known.title}` });
    gone.addEventListener('click', () => {
      remove(known.id);
      if (known.id === chat.id) return show(fresh());
      drawChats();
    });
    return element('li', {}, open, gone);
  }));
  $('forget').hidden = allChats().length === 0;
}

const atEnd = () => $('turns').scrollHeight - $('turns').scrollTop - $('turns').clientHeight < 60;
const toEnd = () => { $('turns').scrollTop = $('turns').scrollHeight; };

// The answer that is coming, redrawn at most once a frame, until it ends.
function liveTurn() {
  let node = null, pending = null;
  const redraw = () => {
    if (!pending) return;
    const follow = atEnd(), unfolded = node?.querySelector('.reasoning')?.open;
    const next = turn(pending, { streaming: true, openReasoning: unfolded ?? $('open_reasoning').checked });
    if (node) node.replaceWith(next);
    else $('turns').append(next);
    node = next;
    pending = null;
    if (follow) toEnd();
  };
  return {
    changed(message, status) {
      if (!pending) requestAnimationFrame(redraw);
      pending = message;
      $('status').textContent = status;
    },
    end() { pending = null; },
  };
}

// --- talking

async function ask() {
  const offered = tools();
  if (!offered) {
    openSettings(true);
    $('tools').focus();
    return;
  }
  const asked = chat;  // when its answer ends another may be shown, or this one be deleted
  running = new AbortController();
  draw();
  toEnd();
  $('input').focus();
  for (let round = 0; round < kMostRounds; ++round) {
    const live = liveTurn();
    const message = await answer(requestBody(asked.messages, settings(), offered), {
      key: $('key').value, raw: $('raw').checked, signal: running.signal, changed: live.changed,
    });
    live.end();
    asked.messages.push(message);
    if (running.signal.aborted || message.page.problem) break;
    for (const call of unanswered(asked)) {
      const result = runDemo(call);
      if (result !== undefined) asked.messages.push({ role: 'tool', tool_call_id: call.id, content: result });
    }
    if (!message.tool_calls || unanswered(asked).length) break;
    draw();
  }
  running = null;
  $('status').textContent = '';
  if (allChats().includes(asked)) keep(asked);
  const follow = atEnd();
  draw();
  if (follow) toEnd();
  document.querySelector('.call textarea')?.focus();
}

function send() {
  const text = $('input').value.trim();
  if (!text || running) return;
  // An answer to a call that never came would be refused: the turn goes without it.
  for (const call of unanswered(chat))
    chat.messages.push({ role: 'tool', tool_call_id: call.id, content: 'no result' });
  chat.messages.push({ role: 'user', content: text });
  chat.title ||= text.replace(/\s+/g, ' ').slice(0, 60);
  $('input').value = '';
  fit();
  keep(chat);
  ask();
}

function answerCall(id, text) {
  chat.messages.push({ role: 'tool', tool_call_id: id, content: text });
  keep(chat);
  if (unanswered(chat).length) draw();
  else ask();
}

function again() {
  while (chat.messages.length && chat.messages.at(-1).role !== 'user') chat.messages.pop();
  ask();
}

function edit(at) {
  $('input').value = chat.messages[at].content;
  chat.messages.length = at;
  draw();
  fit();
  $('input').focus();
}

function show(other) {
  running?.abort();
  chat = other;
  togglePanel('history', false);
  draw();
  toEnd();
  $('input').focus();
}

// --- controls

function fit() {
  $('input').style.height = 'auto';
  $('input').style.height = `${$('input').scrollHeight + 2}px`;
}

function togglePanel(panel, open) {
  $(panel).classList.toggle('shown', open);
  if (panel === 'settings') $('settings').hidden = !open;
  $(`show-${panel}`).ariaExpanded = String(open);
}
const openSettings = (open) => togglePanel('settings', open);

$('composer').addEventListener('submit', (event) => { event.preventDefault(); send(); });
$('input').addEventListener('input', fit);
$('input').addEventListener('keydown', (event) => {
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  send();
});
document.addEventListener('keydown', (event) => {
  if (event.key !== 'Escape') return;
  if (running) running.abort();
  else for (const panel of ['settings', 'history'])
    if ($(`show-${panel}`).ariaExpanded === 'true') { togglePanel(panel, false); $(`show-${panel}`).focus(); }
});
$('stop').addEventListener('click', () => running?.abort());
$('new').addEventListener('click', () => show(fresh()));
$('forget').addEventListener('click', () => {
  if (!confirm('Delete all chats of this browser?')) return;
  removeAll();
  show(fresh());
});
$('theme').addEventListener('click', () => applyTheme($('theme'), true));
for (const panel of ['settings', 'history'])
  $(`show-${panel}`).addEventListener('click', () => togglePanel(panel, $(`show-${panel}`).ariaExpanded !== 'true'));
$('settings').addEventListener('change', (event) => {
  keepSettings(controls);
  if (event.target.id === 'tools') tools();
  if (event.target.id === 'key') showModel();
  if (event.target.id === 'raw' || event.target.id === 'open_reasoning') draw();
});
$('reset').addEventListener('click', () => {
  for (const control of controls) {
    if (control.type === 'checkbox') control.checked = false;
    else control.value = control.id === 'effort' ? 'medium' : '';
  }
  keepSettings(controls);
  tools();
  draw();
});

async function showModel() {
  try {
    const { data: [model] } = await json('/v1/models', { key: $('key').value });
    $('model').textContent = `${model.id}, context ${model.max_model_len ?? '?'}`;
    document.title = `rose: ${model.id}`;
  } catch (error) {
    $('model').textContent = error.message;
    if (error.message.startsWith('401')) openSettings(true);  // where the key goes
  }
}

applyTheme($('theme'));
restoreSettings(controls);
tools();
draw();
showModel();
