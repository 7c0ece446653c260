// One message on the page. Whatever comes from a model goes in as text.
import { element, markdown } from './markdown.js';

const kPlainFrom = 30000;  // longer texts are laid out once, when they are complete

export async function copy(text, button) {
  let copied = false;
  try {
    await navigator.clipboard.writeText(text);
    copied = true;
  } catch {  // a page that was not loaded over TLS has no clipboard but this
    const area = element('textarea', { value: text, className: 'hidden' });
    document.body.append(area);
    area.select();
    copied = document.execCommand('copy');
    area.remove();
    button.focus();
  }
  const label = button.textContent;
  button.textContent = copied ? 'Copied' : 'Not possible';
  setTimeout(() => { button.textContent = label; }, 1500);
}

const button = (text, act, properties = {}) => {
  const made = element('button', { type: 'button', textContent: text, className: 'quiet', ...properties });
  made.addEventListener('click', () => act(made));
  return made;
};

function pretty(text) {
  try { return JSON.stringify(JSON.parse(text), null, 1); } catch { return text; }
}

// Special tokens stand out from text that only looks like them, since the two come apart as pieces.
export function rawText(pieces) {
  return pieces.map(({ text, special }) => special ? element('span', { className: 'special', textContent: text }) : text);
}

function rawView(raw) {
  const view = element('details', { className: 'raw' }, element('summary', {}, 'Raw'));
  for (const [title, pieces] of [['Prompt', raw.prompt], ['Generated', raw.generated]]) {
    if (!pieces) continue;
    view.append(element('h3', { className: 'dim' }, title),
      element('pre', { tabIndex: 0, ariaLabel: title }, ...rawText(pieces)));
  }
  if (raw.problem) view.append(element('p', { className: 'problem' }, raw.problem));
  return view;
}

// A call, its result if it is there, or a form that asks for it.
function callView(call, result, answer) {
  const view = element('section', { className: 'call' },
    element('h3', {}, 'Calls ', element('span', { className: 'mono', textContent: call.function.name })),
    element('pre', { tabIndex: 0, ariaLabel: 'Arguments', textContent: pretty(call.function.arguments) }));
  if (result !== undefined) {
    view.append(element('p', { className: 'dim' }, 'Result'),
      element('pre', { tabIndex: 0, ariaLabel: 'Result', textContent: pretty(result) }));
  } else if (answer) {
    const text = element('textarea', { rows: 2, required: true });
    const form = element('form', {}, element('label', {}, `Result of ${call.function.name}`, text),
      element('button', { type: 'submit', textContent: 'Answer' }));
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      answer(text.value);
    });
    view.append(form);
  }
  return view;
}

// `options`: results by call id, answer(id, text), again(), showRaw, openReasoning, streaming.
export function turn(message, options) {
  const user = message.role === 'user';
  const node = element('article', { className: `turn ${message.role}` },
    element('h2', {}, user ? 'You' : 'rose'));
  if (message.reasoning) {
    const fold = element('details', { className: 'reasoning', open: options.openReasoning },
      element('summary', {}, options.streaming && !message.content ? 'Thinking …' : 'Reasoning'),
      element('div', { className: 'plain', textContent: message.reasoning }));
    node.append(fold);
  }
  if (message.content) {
    const body = element('div', { className: 'body' });
    if (user || (options.streaming && message.content.length > kPlainFrom)) {
      body.classList.add('plain');
      body.textContent = message.content;
    } else {
      body.append(markdown(message.content, copy));
    }
    node.append(body);
  }
  for (const call of message.tool_calls ?? [])
    node.append(callView(call, options.results?.get(call.id),
      options.answer && ((text) => options.answer(call.id, text))));
  if (options.streaming) return node;
  if (message.page?.problem) node.append(element('p', { className: 'problem', role: 'alert' }, message.page.problem));
  if (options.showRaw && message.page?.raw) node.append(rawView(message.page.raw));
  const meta = element('div', { className: 'meta' });
  if (message.page?.meta) meta.append(element('span', {}, message.page.meta));
  if (message.content) meta.append(button('Copy', (made) => copy(message.content, made)));
  if (options.again) meta.append(button(user ? 'Edit' : 'Again', options.again));
  if (meta.childNodes.length) node.append(meta);
  return node;
}
