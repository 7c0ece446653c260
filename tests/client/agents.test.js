// OpenAI's Agents SDK drives rose: tools are run by the SDK, over both of its APIs.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, setTracingDisabled, tool } from '@openai/agents';
import OpenAI from 'openai';
import { z } from 'zod';
import { serve } from './serve.js';

let server, client, name;

before(async () => {
  setTracingDisabled(true);
  server = await serve();
  client = new OpenAI({ baseURL: `${server.base}/v1`, apiKey: 'EMPTY', maxRetries: 0 });
  name = (await client.models.list()).data[0].id;
});
after(() => server?.stop());

for (const Model of [OpenAIResponsesModel, OpenAIChatCompletionsModel]) {
  for (const stream of [false, true]) {
    test(`an agent calls its tool and answers: ${Model.name}, stream ${stream}`, async () => {
      const asked = [];
      const weather = tool({
        name: 'get_weather',
        description: 'Get the weather in a city.',
        parameters: z.object({ location: z.string().describe('The city') }),
        execute: async ({ location }) => {
          asked.push(location);
          return '{"temperature": 2, "sky": "sunny"}';
        },
      });
      const agent = new Agent({
        name: 'weather', tools: [weather], model: new Model(client, name), modelSettings: { temperature: 0 },
      });
      const result = await new Runner().run(agent, 'How is the weather in Zurich?', { stream });
      if (stream) await result.completed;
      assert.deepEqual(asked, ['Zurich']);
      assert.equal(result.finalOutput, 'It is 2 degrees and sunny in Zurich.');
    });
  }
}
