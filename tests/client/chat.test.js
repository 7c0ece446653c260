// rose serve, the demo model and the official client: what a user of the API does.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import OpenAI from 'openai';
import { serve } from './serve.js';

let server, client, base;

before(async () => {
  server = await serve();
  base = server.base;
  client = new OpenAI({ baseURL: `${base}/v1`, apiKey: 'EMPTY', maxRetries: 0 });
});
after(() => server?.stop());

const model = async () => (await client.models.list()).data[0].id;
const ask = (content, more = {}) => ({
  messages: [{ role: 'user', content }],
  temperature: 0,
  reasoning_effort: 'high',
  ...more,
});

const tools = [{
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'Get the weather in a city.',
    parameters: {
      type: 'object',
      properties: {
        location: { type: 'string', description: 'The city' },
        unit: { type: 'string', enum: ['celsius', 'fahrenheit'], default: 'celsius' },
      },
      required: ['location'],
    },
  },
}];

test('the model is listed', async () => {
  const name = await model();
  assert.equal((await client.models.retrieve(name)).id, name);
});

test('a question gets its answer, its reasoning and its usage', async () => {
  const completion = await client.chat.completions.create(
    ask('Which city is the capital of Denmark?', { model: await model() }));
  const { message, finish_reason } = completion.choices[0];
  assert.match(message.content, /Copenhagen/);
  assert.match(message.reasoning, /Copenhagen/);
  assert.equal(message.reasoning_content, message.reasoning);
  assert.equal(finish_reason, 'stop');
  const { usage } = completion;
  assert.equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens);
  assert.ok(usage.completion_tokens_details.reasoning_tokens > 0);
});

test('a stream joins to the same answer', async () => {
  const request = ask('Repeat after me: jalapeño river 😀', { model: await model() });
  const whole = await client.chat.completions.create(request);
  const stream = await client.chat.completions.create(
    { ...request, stream: true, stream_options: { include_usage: true } });
  let content = '', reasoning = '', finish, usage, chunks = 0;
  for await (const chunk of stream) {
    ++chunks;
    content += chunk.choices[0]?.delta.content ?? '';
    reasoning += chunk.choices[0]?.delta.reasoning ?? '';
    finish ??= chunk.choices[0]?.finish_reason;
    usage = chunk.usage;
  }
  assert.equal(content, 'jalapeño river 😀');
  assert.equal(content, whole.choices[0].message.content);
  assert.equal(reasoning, whole.choices[0].message.reasoning);
  assert.equal(finish, 'stop');
  assert.equal(usage.completion_tokens, whole.usage.completion_tokens);
  assert.ok(usage.prompt_tokens_details.cached_tokens >= 0);
  assert.ok(chunks > 5);
});

test('the client\'s own stream helper understands the events', async () => {
  const runner = client.chat.completions.stream(
    ask('How is the weather in Oslo?', { model: await model(), tools }));
  const final = await runner.finalChatCompletion();
  assert.equal(final.choices[0].finish_reason, 'tool_calls');
  assert.equal(final.choices[0].message.tool_calls[0].function.name, 'get_weather');
  assert.equal(JSON.parse(final.choices[0].message.tool_calls[0].function.arguments).location, 'Oslo');
});

test('a tool is called, and its result told', async () => {
  const messages = [{ role: 'user', content: 'How is the weather in Zurich?' }];
  const request = { model: await model(), messages, tools, temperature: 0 };
  const first = await client.chat.completions.create(request);
  const { message, finish_reason } = first.choices[0];
  assert.equal(finish_reason, 'tool_calls');
  assert.equal(message.content, null);
  assert.equal(message.tool_calls.length, 1);
  const [call] = message.tool_calls;
  assert.match(call.id, /^call_[0-9a-f]{24}$/);
  assert.equal(call.function.name, 'get_weather');
  assert.deepEqual(JSON.parse(call.function.arguments), { location: 'Zurich' });

  messages.push(message, {
    role: 'tool', tool_call_id: call.id, content: '{"temperature": 2, "sky": "sunny"}',
  });
  const second = await client.chat.completions.create(request);
  assert.equal(second.choices[0].message.content, 'It is 2 degrees and sunny in Zurich.');
});

test('stop strings, limits, several choices and logprobs', async () => {
  const name = await model();
  const stopped = await client.chat.completions.create(
    ask('Count from 1 to 30.', { model: name, reasoning_effort: 'low', stop: ['12'] }));
  assert.equal(stopped.choices[0].message.content, '1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ');
  assert.equal(stopped.choices[0].finish_reason, 'stop');

  const limited = await client.chat.completions.create(
    ask('Count from 1 to 30.', { model: name, max_completion_tokens: 8 }));
  assert.equal(limited.choices[0].finish_reason, 'length');
  assert.equal(limited.usage.completion_tokens, 8);

  const several = await client.chat.completions.create(
    ask('Opposite of loud?', { model: name, n: 2, logprobs: true, top_logprobs: 2 }));
  assert.equal(several.choices.length, 2);
  for (const choice of several.choices) {
    assert.match(choice.message.content, /quiet/);
    const text = Buffer.from(choice.logprobs.content.flatMap((token) => token.bytes)).toString();
    assert.equal(text, choice.message.content);
    assert.equal(choice.logprobs.content[0].top_logprobs.length, 2);
  }
});

test('errors have the client\'s own classes', async () => {
  const name = await model();
  await assert.rejects(client.chat.completions.create(ask('Hi', { model: 'no-such-model' })),
    (error) => error instanceof OpenAI.NotFoundError && error.code === 'model_not_found');
  await assert.rejects(client.chat.completions.create(ask('Hi', { model: name, temperature: 7 })),
    (error) => error instanceof OpenAI.BadRequestError && error.param === 'temperature');
  await assert.rejects(client.chat.completions.create({ model: name, messages: [] }),
    OpenAI.BadRequestError);
  await assert.rejects(
    client.chat.completions.create(ask('Hi', { model: name, response_format: { type: 'xml' } })),
    (error) => error instanceof OpenAI.BadRequestError && /xml/.test(error.message));
});

test('an answer keeps to its schema, and a forced call to its tool', async () => {
  const name = await model();
  const schema = {
    type: 'object', additionalProperties: false, required: ['city', 'population'],
    properties: { city: { enum: ['Oslo', 'Rome'] }, population: { type: 'integer' } },
  };
  const { choices: [answer] } = await client.chat.completions.create(ask('Tell me of a city.', {
    model: name, response_format: { type: 'json_schema', json_schema: { name: 'city', schema } },
  }));
  assert.equal(answer.finish_reason, 'stop');
  const city = JSON.parse(answer.message.content);
  assert.deepEqual(Object.keys(city).sort(), ['city', 'population']);
  assert.ok(['Oslo', 'Rome'].includes(city.city) && Number.isInteger(city.population));

  const { choices: [forced] } = await client.chat.completions.create(ask('What is 2 + 2?', {
    model: name, tools, tool_choice: 'required',
  }));
  assert.equal(forced.message.tool_calls[0].function.name, 'get_weather');
  JSON.parse(forced.message.tool_calls[0].function.arguments);
});

test('a stream that is given up frees its sequence', async () => {
  const stream = await client.chat.completions.create(
    ask('Count from 1 to 163.', { model: await model(), stream: true }));
  for await (const chunk of stream) {
    if (chunk.choices[0]?.delta.reasoning || chunk.choices[0]?.delta.content) break;
  }
  stream.controller.abort();
  for (;;) {
    const metrics = await (await fetch(`${base}/metrics`)).text();
    if (/num_requests_running\{[^}]*\} 0\n/.test(metrics) &&
        /request_success_total\{[^}]*"abort"\} 1\n/.test(metrics)) break;
  }
});
