// One answer of the model: the request that asks for it, and what its chunks add up to.
import { chunks, json } from './stream.js';

// A message as the API takes it: without what the page keeps beside it.
function forServer({ role, content, reasoning, tool_calls, tool_call_id }) {
  const message = { role, content: content || (role === 'assistant' ? null : '') };
  if (reasoning) message.reasoning = reasoning;
  if (tool_calls?.length) message.tool_calls = tool_calls;
  if (tool_call_id) message.tool_call_id = tool_call_id;
  return message;
}

export function requestBody(messages, settings, tools) {
  const body = { messages: messages.map(forServer), reasoning_effort: settings.effort, ...settings.sampling };
  if (settings.system) body.messages.unshift({ role: 'system', content: settings.system });
  if (tools.length) body.tools = tools;
  return body;
}

function addCall(calls, part) {
  const call = calls[part.index] ??= { id: '', type: 'function', function: { name: '', arguments: '' } };
  if (part.id) call.id = part.id;
  call.function.name += part.function?.name ?? '';
  call.function.arguments += part.function?.arguments ?? '';
}

const speedOf = (tokens, began) => {
  const seconds = (performance.now() - began) / 1000;
  return tokens > 1 && seconds > 0 ? `${((tokens - 1) / seconds).toFixed(1)} tokens/s` : '';
};

// Streams an answer into a message; `changed(message, status)` is told of every piece. What went wrong is
// in message.page.problem.
export async function answer(body, { key, raw, signal, changed }) {
  const message = { role: 'assistant', content: '', reasoning: '', page: {} };
  const calls = [], ids = [];
  const asked = performance.now();
  let began = 0, tokens = 0, usage, reason = '';
  if (raw) message.page.raw = {};
  try {
    const request = { ...body, stream: true,
      stream_options: { include_usage: true, continuous_usage_stats: true } };
    if (raw) request.return_token_ids = true;
    for await (const chunk of chunks('/v1/chat/completions', { key, body: request, signal })) {
      usage = chunk.usage ?? usage;
      const choice = chunk.choices?.[0];
      if (!choice) continue;
      ids.push(...choice.token_ids ?? []);
      const delta = choice.delta ?? {};
      message.content += delta.content ?? '';
      message.reasoning += delta.reasoning ?? delta.reasoning_content ?? '';
      for (const part of delta.tool_calls ?? []) addCall(calls, part);
      if (calls.length) message.tool_calls = calls;
      reason = choice.finish_reason ?? reason;
      tokens = usage?.completion_tokens ?? tokens + 1;
      if (!began && tokens) began = performance.now();
      changed(message, `${tokens} tokens  ${began ? speedOf(tokens, began) : ''}`);
    }
  } catch (error) {
    if (error.name === 'AbortError') reason = 'stopped';
    else message.page.problem = error.message;
  }
  const facts = [`${tokens} tokens`, speedOf(tokens, began)];
  if (began) facts.push(`first after ${((began - asked) / 1000).toFixed(2)} s`);
  const cached = usage?.prompt_tokens_details?.cached_tokens;
  if (usage) facts.push(`prompt ${usage.prompt_tokens}${cached ? ` (${cached} cached)` : ''}`);
  if (reason && reason !== 'stop' && reason !== 'tool_calls') facts.push(reason === 'length' ? 'cut at its limit' : reason);
  message.page.meta = facts.filter(Boolean).join(' · ');
  if (raw) await addRaw(message.page.raw, body, ids, key);
  return message;
}

// The prompt and the generated tokens as pieces {text, special}.
async function addRaw(raw, body, ids, key) {
  try {
    const pieces = async (tokens) =>
      (await json('/detokenize', { key, body: { tokens, return_pieces: true } })).pieces;
    raw.prompt = await pieces((await json('/v1/chat/completions/render', { key, body })).tokens);
    if (ids.length) raw.generated = await pieces(ids);
  } catch (error) {
    raw.problem = error.message;
  }
}
