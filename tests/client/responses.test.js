// The Responses API through the official client, and a conversation that outlives a kill of the server.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import OpenAI from 'openai';
import { zodTextFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import { serve } from './serve.js';

let server, client, model;
const connect = (base) => new OpenAI({ baseURL: `${base}/v1`, apiKey: 'EMPTY', maxRetries: 0 });

before(async () => {
  server = await serve();
  client = connect(server.base);
  model = (await client.models.list()).data[0].id;
});
after(() => server?.stop());

const ask = (input, more = {}) =>
  ({ model, input, temperature: 0, reasoning: { effort: 'high' }, ...more });
const tools = [{
  type: 'function',
  name: 'get_weather',
  description: 'Get the weather in a city.',
  strict: false,
  parameters: {
    type: 'object',
    properties: {
      location: { type: 'string', description: 'The city' },
      unit: { type: 'string', enum: ['celsius', 'fahrenheit'], default: 'celsius' },
    },
    required: ['location'],
  },
}];

test('a question gets its answer and its reasoning', async () => {
  const response = await client.responses.create(ask('Which city is the capital of Denmark?'));
  assert.equal(response.status, 'completed');
  assert.match(response.output_text, /Copenhagen/);
  assert.deepEqual(response.output.map((item) => item.type), ['reasoning', 'message']);
  assert.match(response.output[0].content[0].text, /Copenhagen/);
  assert.ok(response.usage.output_tokens_details.reasoning_tokens > 0);
  assert.deepEqual(await client.responses.retrieve(response.id), response);
});

test('a stream tells the same, in the client\'s own helper', async () => {
  const request = ask('Repeat after me: jalapeño river 😀');
  const whole = await client.responses.create(request);
  const types = new Set();
  const stream = client.responses.stream(request);
  for await (const event of stream) types.add(event.type);
  const final = await stream.finalResponse();
  const text = final.output.find((item) => item.type === 'message').content[0].text;
  assert.equal(text, whole.output_text);
  assert.equal(text, 'jalapeño river 😀');
  for (const type of ['response.created', 'response.reasoning_text.delta', 'response.output_text.delta',
    'response.output_item.done', 'response.completed']) assert.ok(types.has(type), type);
});

test('a tool is called, and the conversation goes on from what is stored', async () => {
  const first = await client.responses.create(
    ask('How is the weather in Zurich?', { tools, reasoning: undefined }));
  const call = first.output.find((item) => item.type === 'function_call');
  assert.equal(call.name, 'get_weather');
  assert.deepEqual(JSON.parse(call.arguments), { location: 'Zurich' });
  const second = await client.responses.create({
    model, tools, temperature: 0, previous_response_id: first.id,
    input: [{ type: 'function_call_output', call_id: call.call_id, output: '{"temperature": 2, "sky": "sunny"}' }],
  });
  assert.equal(second.output_text, 'It is 2 degrees and sunny in Zurich.');

  // The same with the items sent back instead.
  const again = await client.responses.create({
    model, tools, temperature: 0, store: false,
    input: [{ role: 'user', content: 'How is the weather in Zurich?' }, ...first.output,
      { type: 'function_call_output', call_id: call.call_id, output: '{"temperature": 2, "sky": "sunny"}' }],
  });
  assert.equal(again.output_text, second.output_text);
});

test('streamed calls arrive as the helper expects', async () => {
  const stream = client.responses.stream(ask('How is the weather in Oslo?', { tools }));
  let joined = '';
  for await (const event of stream)
    if (event.type === 'response.function_call_arguments.delta') joined += event.delta;
  const final = await stream.finalResponse();
  const call = final.output.find((item) => item.type === 'function_call');
  assert.equal(call.arguments, joined);
  assert.equal(JSON.parse(joined).location, 'Oslo');
});

test('an answer is parsed by its schema', async () => {
  const City = z.object({ city: z.enum(['Oslo', 'Rome']), population: z.number().int() });
  const response = await client.responses.parse(
    ask('Tell me of a city.', { text: { format: zodTextFormat(City, 'city') } }));
  assert.ok(['Oslo', 'Rome'].includes(response.output_parsed.city));
});

test('in the background, cancelled, deleted', async () => {
  let response = await client.responses.create(ask('Opposite of loud?', { background: true }));
  assert.ok(['queued', 'in_progress'].includes(response.status));
  while (['queued', 'in_progress'].includes(response.status))
    response = await client.responses.retrieve(response.id);
  assert.match(response.output_text, /quiet/);

  const long = await client.responses.create(
    ask('Count from 1 to 163.', { background: true, ignore_eos: true }));
  await client.responses.cancel(long.id);
  let ended = await client.responses.retrieve(long.id);
  while (['queued', 'in_progress'].includes(ended.status))
    ended = await client.responses.retrieve(long.id);
  assert.ok(['cancelled', 'completed'].includes(ended.status));

  await client.responses.delete(response.id);
  await assert.rejects(client.responses.retrieve(response.id), OpenAI.NotFoundError);
});

test('a stream in the background is taken up again where it broke off', async () => {
  const seen = [];
  const stream = await client.responses.create(
    ask('Repeat after me: jalapeño river 😀', { background: true, stream: true }));
  for await (const event of stream) {
    seen.push(event);
    if (seen.length === 6) break;  // closes the connection
  }
  const id = seen[0].response.id;
  const rest = await client.responses.retrieve(
    id, { stream: true, starting_after: seen[5].sequence_number });
  for await (const event of rest) seen.push(event);
  assert.deepEqual(seen.map((event) => event.sequence_number), [...seen.keys()]);
  const last = seen[seen.length - 1];
  assert.equal(last.type, 'response.completed');
  const joined = seen.filter((event) => event.type === 'response.output_text.delta')
    .map((event) => event.delta).join('');
  assert.equal(joined, 'jalapeño river 😀');
  assert.deepEqual((await client.responses.retrieve(id)).output, last.response.output);
});

test('custom tools take text, and items are sent by their ids', async () => {
  const custom = [
    { type: 'custom', name: 'run', description: 'Run a command.' },
    { type: 'custom', name: 'dial', format: { type: 'grammar', syntax: 'regex', definition: '[0-9]{3}-[0-9]{4}' } },
  ];
  const request = ask('Dial it.', { tools: custom, tool_choice: { type: 'custom', name: 'dial' }, max_output_tokens: 400 });
  const stream = client.responses.stream(request);
  let joined = '';
  for await (const event of stream)
    if (event.type === 'response.custom_tool_call_input.delta') joined += event.delta;
  const first = await stream.finalResponse();
  const call = first.output.find((item) => item.type === 'custom_tool_call');
  assert.equal(call.name, 'dial');
  assert.match(call.input, /^[0-9]{3}-[0-9]{4}$/);
  assert.equal(joined, call.input);
  const again = {
    model, tools: custom, temperature: 0, max_output_tokens: 40,
    input: [{ role: 'user', content: 'Dial it.' }, ...first.output.map(({ id }) => ({ type: 'item_reference', id })),
      { type: 'custom_tool_call_output', call_id: call.call_id, output: 'busy' }],
  };
  const second = await client.responses.create(again);
  const whole = await client.responses.create(
    { ...again, input: [again.input[0], ...first.output, again.input[again.input.length - 1]] });
  assert.equal(second.usage.input_tokens, whole.usage.input_tokens);
  assert.equal(second.output_text, whole.output_text);
});

test('a kill loses no response that was finished', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'rose-store-'));
  const store = ['--response-store', join(folder, 'responses.db')];
  try {
    let other = await serve(...store);
    const finished = [];
    const conversations = Array.from({ length: 4 }, async (_, i) => {
      let previous;
      for (let turn = 0; ; ++turn) {
        const response = await connect(other.base).responses.create({
          model, temperature: 0, reasoning: { effort: 'low' }, previous_response_id: previous,
          max_output_tokens: 40, input: turn ? 'And again.' : `My name is N${i}.`,
        });
        finished.push(response);
        previous = response.id;
      }
    });
    const ended = Promise.allSettled(conversations);
    while (finished.length < 12) await new Promise((resolve) => setImmediate(resolve));
    await other.kill();
    await ended;

    other = await serve(...store);
    const again = connect(other.base);
    for (const response of finished)
      assert.deepEqual(await again.responses.retrieve(response.id), response);
    const last = finished[finished.length - 1];
    const next = await again.responses.create(
      { model, previous_response_id: last.id, input: 'Go on.', max_output_tokens: 5 });
    assert.equal(next.previous_response_id, last.id);
    assert.ok(next.usage.input_tokens > last.usage.input_tokens);
    await other.stop();
  } finally {
    rmSync(folder, { recursive: true });
  }
});
