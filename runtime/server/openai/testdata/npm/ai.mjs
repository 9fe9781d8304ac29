// Drives a server with the AI SDK, as client.mjs does with OpenAI's client.
import assert from 'node:assert/strict';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText, stepCountIs, streamText, tool } from 'ai';
import { z } from 'zod';
import { baseURL, model as name, run } from './scenarios.mjs';

const provider = createOpenAICompatible({ name: 'hermes', baseURL, apiKey: process.env.HERMES_KEY ?? 'none', includeUsage: true });
const model = provider(name);
const look = (seen) => tool({
  description: 'Looks somewhere.',
  inputSchema: z.object({ at: z.string() }),
  execute: async ({ at }) => { seen.push(at); return `the ${at} is blue`; },
});

await run({
  async 'generates'() {
    const { text, finishReason, usage } = await generateText({ model, prompt: 'plain', maxRetries: 0 });
    assert.equal(text, 'Hello from hermes.');
    assert.equal(finishReason, 'stop');
    assert.ok(usage.totalTokens > 0);
  },
  async 'streams'() {
    const result = streamText({ model, prompt: 'plain', maxRetries: 0 });
    let text = '';
    for await (const piece of result.textStream) text += piece;
    assert.equal(text, 'Hello from hermes.');
    assert.equal(await result.finishReason, 'stop');
  },
  async 'sees no calls of the server\'s tools'() {
    const { text, steps } = await generateText({ model, prompt: 'weather', maxRetries: 0 });
    assert.match(text, /^It is \d+ at the server\.$/);
    assert.equal(steps.flatMap((s) => s.toolCalls).length, 0);
  },
  async 'runs its own tools'() {
    const seen = [];
    const { text } = await generateText({ model, prompt: 'look', tools: { look: look(seen) }, stopWhen: stepCountIs(5), maxRetries: 0 });
    assert.deepEqual(seen.sort(), ['sea', 'sky']);
    assert.equal(text, 'Seen: the sea is blue');
  },
  async 'streams with its own tools beside the server\'s'() {
    const seen = [];
    const result = streamText({ model, prompt: 'both', tools: { look: look(seen) }, stopWhen: stepCountIs(5), maxRetries: 0 });
    let text = '';
    for await (const piece of result.textStream) text += piece;
    assert.deepEqual(seen, ['sky']);
    assert.equal(text, 'Both: the sky is blue');
  },
  async 'is told of an error in a stream'() {
    const errors = [];
    const result = streamText({ model, prompt: 'break ai', maxRetries: 0, onError: ({ error }) => errors.push(String(error?.message ?? error)) });
    await result.consumeStream();
    assert.match(errors.join(), /503/);
  },
  async 'is told of an unknown model'() {
    await assert.rejects(generateText({ model: provider('nobody'), prompt: 'plain', maxRetries: 0 }), (e) => e.statusCode === 404 && /nobody/.test(e.message));
  },
});
