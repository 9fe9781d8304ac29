// Drives a server with LangChain, as client.mjs does with OpenAI's client.
import assert from 'node:assert/strict';
import { ChatOpenAI } from '@langchain/openai';
import { createAgent, tool } from 'langchain';
import { z } from 'zod';
import { baseURL, model as name, run } from './scenarios.mjs';

const make = (options = {}) => new ChatOpenAI({ model: name, apiKey: process.env.HERMES_KEY ?? 'none', maxRetries: 0, useResponsesApi: false, configuration: { baseURL }, ...options });
const look = (seen) => tool(async ({ at }) => { seen.push(at); return `the ${at} is blue`; }, {
  name: 'look', description: 'Looks somewhere.', schema: z.object({ at: z.string() }),
});

await run({
  async 'invokes'() {
    const answer = await make().invoke('plain');
    assert.equal(answer.text, 'Hello from hermes.');
    assert.equal(answer.response_metadata.finish_reason, 'stop');
    assert.ok(answer.usage_metadata.total_tokens > 0);
  },
  async 'streams'() {
    let whole;
    for await (const chunk of await make().stream('plain')) whole = whole ? whole.concat(chunk) : chunk;
    assert.equal(whole.text, 'Hello from hermes.');
  },
  async 'keeps answers apart'() {
    const [one, two] = [await make().invoke('plain'), await make().invoke('plain')];
    assert.notEqual(one.id, two.id);
  },
  async 'binds tools'() {
    const answer = await make().bindTools([look([])]).invoke('look');
    assert.deepEqual(answer.tool_calls.map((c) => c.args.at), ['sky', 'sea']);
  },
  async 'runs an agent'() {
    const seen = [];
    const agent = createAgent({ model: make(), tools: [look(seen)] });
    const { messages } = await agent.invoke({ messages: [{ role: 'user', content: 'both' }] });
    assert.deepEqual(seen, ['sky']);
    assert.equal(messages.at(-1).text, 'Both: the sky is blue');
  },
  async 'sees no calls of the server\'s tools'() {
    const answer = await make().invoke('weather');
    assert.match(answer.text, /^It is \d+ at the server\.$/);
    assert.equal(answer.tool_calls.length, 0);
  },
  async 'is told of an error in a stream'() {
    let text = '';
    await assert.rejects(async () => { for await (const c of await make().stream('break langchain')) text += c.text; }, /503/);
    assert.equal(text, 'One two ');
  },
});
