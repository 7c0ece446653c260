// Anthropic's SDK drives rose.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import { serve } from './serve.js';

let server, client, model;

before(async () => {
  server = await serve();
  client = new Anthropic({ baseURL: server.base, apiKey: 'EMPTY', maxRetries: 0 });
  model = (await (await fetch(`${server.base}/v1/models`)).json()).data[0].id;
});
after(() => server?.stop());

const ask = (content, more = {}) =>
  ({ model, max_tokens: 400, temperature: 0, messages: [{ role: 'user', content }], ...more });
const tools = [{
  name: 'get_weather',
  description: 'Get the weather in a city.',
  input_schema: {
    type: 'object',
    properties: {
      location: { type: 'string', description: 'The city' },
      unit: { type: 'string', enum: ['celsius', 'fahrenheit'], default: 'celsius' },
    },
    required: ['location'],
  },
}];

test('a question gets thinking and an answer', async () => {
  const message = await client.messages.create(ask('Which city is the capital of Denmark?',
    { thinking: { type: 'enabled', budget_tokens: 1024 }, max_tokens: 2000 }));
  assert.equal(message.stop_reason, 'end_turn');
  const text = message.content.find((block) => block.type === 'text');
  assert.match(text.text, /Copenhagen/);
  assert.ok(message.usage.output_tokens > 0);
  const counted = await client.messages.countTokens(
    { model, messages: [{ role: 'user', content: 'Which city is the capital of Denmark?' }] });
  assert.equal(counted.input_tokens,
    message.usage.input_tokens + message.usage.cache_read_input_tokens);
});

test('a stream joins to the same', async () => {
  const request = ask('Repeat after me: jalapeño river 😀');
  const whole = await client.messages.create(request);
  const stream = client.messages.stream(request);
  let text = '';
  stream.on('text', (piece) => { text += piece; });
  const final = await stream.finalMessage();
  assert.equal(text, 'jalapeño river 😀');
  assert.deepEqual(final.content, whole.content);
  assert.equal(final.usage.output_tokens, whole.usage.output_tokens);
});

test('a tool is called, and its result told', async () => {
  const request = ask('How is the weather in Zurich?', { tools });
  const stream = client.messages.stream(request);
  const first = await stream.finalMessage();
  assert.equal(first.stop_reason, 'tool_use');
  const call = first.content.find((block) => block.type === 'tool_use');
  assert.deepEqual(call.input, { location: 'Zurich' });
  const second = await client.messages.create({
    ...request,
    messages: [...request.messages, { role: 'assistant', content: first.content }, {
      role: 'user',
      content: [{ type: 'tool_result', tool_use_id: call.id, content: '{"temperature": 2, "sky": "sunny"}' }],
    }],
  });
  assert.equal(second.content.find((block) => block.type === 'text').text,
    'It is 2 degrees and sunny in Zurich.');
});

test('a forced tool, and errors of the SDK\'s own classes', async () => {
  const forced = await client.messages.create(
    ask('What is 2 + 2?', { tools, tool_choice: { type: 'tool', name: 'get_weather' } }));
  assert.equal(forced.content.at(-1).name, 'get_weather');
  await assert.rejects(client.messages.create({ ...ask('Hi'), model: 'no-such-model' }),
    Anthropic.NotFoundError);
  await assert.rejects(client.messages.create(ask('Hi', { temperature: 7 })),
    Anthropic.BadRequestError);
});
