// Drives a server with OpenAI's own client. HERMES_BASE_URL is its /v1; the agent
// "tester" answers by the rules in project/agents/main.hcl. Prints one line for each
// scenario that passed.
import assert from 'node:assert/strict';
import OpenAI from 'openai';
import { baseURL, model, run } from './scenarios.mjs';

const client = new OpenAI({ baseURL, apiKey: process.env.HERMES_KEY ?? 'none', maxRetries: 0 });
const user = (content) => ({ role: 'user', content });
const look = {
  type: 'function',
  function: {
    name: 'look',
    description: 'Looks somewhere.',
    parameters: {
      $schema: 'http://json-schema.org/draft-07/schema#', type: 'object', additionalProperties: false,
      properties: { at: { type: 'string' } }, required: ['at'],
    },
    strict: true,
  },
};

await run({
  async 'lists models'() {
    const ids = [];
    for await (const m of client.models.list()) ids.push(m.id);
    assert.ok(ids.includes(model), `models: ${ids}`);
  },
  async 'retrieves a model'() {
    const m = await client.models.retrieve(model);
    assert.equal(m.id, model);
    assert.equal(m.object, 'model');
  },
  async 'is told of an unknown model'() {
    await assert.rejects(client.models.retrieve('team/nobody'), (e) => e instanceof OpenAI.NotFoundError && /team\/nobody/.test(e.message));
    await assert.rejects(client.chat.completions.create({ model: 'nobody', messages: [user('plain')] }),
      (e) => e instanceof OpenAI.NotFoundError && e.param === 'model' && typeof e.requestID === 'string');
  },
  async 'chats'() {
    const { data, response } = await client.chat.completions.create({ model, messages: [user('plain')] }).withResponse();
    assert.equal(data.choices[0].message.content, 'Hello from hermes.');
    assert.equal(data.choices[0].finish_reason, 'stop');
    assert.ok(data.usage.total_tokens > 0);
    assert.ok(response.headers.get('hermes-session'));
    assert.ok(Number(response.headers.get('hermes-generation')) > 0);
    assert.equal(data._request_id, response.headers.get('x-request-id'));
  },
  async 'streams'() {
    let text = '', finish = [], usage = null;
    const stream = await client.chat.completions.create({ model, messages: [user('plain')], stream: true, stream_options: { include_usage: true } });
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta?.content ?? '';
      if (chunk.choices[0]?.finish_reason) finish.push(chunk.choices[0].finish_reason);
      usage = chunk.usage ?? usage;
    }
    assert.equal(text, 'Hello from hermes.');
    assert.deepEqual(finish, ['stop']);
    assert.ok(usage.total_tokens > 0);
  },
  async 'sees no calls of the server\'s tools'() {
    const whole = await client.chat.completions.create({ model, messages: [user('weather')] });
    const helper = client.chat.completions.stream({ model, messages: [user('weather')] });
    const activity = [];
    helper.on('chunk', (c) => { if (c.hermes) activity.push(c.hermes.event); });
    const final = await helper.finalChatCompletion();
    for (const c of [whole, final]) {
      assert.match(c.choices[0].message.content, /^It is \d+ at the server\.$/);
      assert.equal(c.choices[0].finish_reason, 'stop');
      assert.ok(!c.choices[0].message.tool_calls?.length);
    }
    assert.deepEqual(activity, ['tool.started', 'tool.finished']);
    assert.notEqual(whole.id, final.id);
  },
  async 'round-trips client tools'() {
    const messages = [user('look')];
    const first = await client.chat.completions.create({ model, messages, tools: [look], tool_choice: 'auto', parallel_tool_calls: true });
    const { message, finish_reason } = first.choices[0];
    assert.equal(finish_reason, 'tool_calls');
    assert.deepEqual(message.tool_calls.map((c) => JSON.parse(c.function.arguments).at), ['sky', 'sea']);
    messages.push(message, ...message.tool_calls.map((c) => ({ role: 'tool', tool_call_id: c.id, content: `saw ${c.function.arguments}` })));
    const second = await client.chat.completions.create({ model, messages, tools: [look] });
    assert.equal(second.choices[0].message.content, 'Seen: saw {"at":"sea"}');
    assert.notEqual(first.id, second.id);
  },
  async 'streams client tools'() {
    const runner = client.chat.completions.stream({ model, messages: [user('look')], tools: [look] });
    const done = [];
    runner.on('tool_calls.function.arguments.done', (e) => done.push([e.index, e.name, e.arguments]));
    const final = await runner.finalChatCompletion();
    assert.deepEqual(done, [[0, 'look', '{"at":"sky"}'], [1, 'look', '{"at":"sea"}']]);
    assert.equal(final.choices[0].finish_reason, 'tool_calls');
  },
  async 'runs tools by itself'() {
    for (const stream of [false, true]) {
      const seen = [];
      const runner = client.chat.completions.runTools({
        model, stream, messages: [user('both')],
        tools: [{ type: 'function', function: { ...look.function, parse: JSON.parse, function: ({ at }) => { seen.push(at); return `the ${at} is blue`; } } }],
      });
      assert.equal(await runner.finalContent(), 'Both: the sky is blue');
      assert.deepEqual(seen, ['sky']);
    }
  },
  async 'continues a session'() {
    const headers = { 'Hermes-Session': 'new' };
    const first = await client.chat.completions.create({ model, messages: [user('plain')] }, { headers }).withResponse();
    const id = first.response.headers.get('hermes-session');
    const messages = [user('plain'), first.data.choices[0].message, user('weather')];
    const second = await client.chat.completions.create({ model, messages, metadata: { session_id: id } }).withResponse();
    assert.equal(second.response.headers.get('hermes-session'), id);
  },
  async 'is refused clearly'() {
    const bad = { model, messages: [user('plain')] };
    for (const [params, param] of [[{ n: 2 }, 'n'], [{ logprobs: true }, 'logprobs'], [{ messages: [] }, 'messages'], [{ tool_choice: 'any' }, 'tool_choice']]) {
      await assert.rejects(client.chat.completions.create({ ...bad, ...params }),
        (e) => e instanceof OpenAI.BadRequestError && e.param === param && e.type === 'invalid_request_error' && e.message.includes(param));
    }
    await assert.rejects(client.responses.create({ model, input: 'hi' }), (e) => e instanceof OpenAI.NotFoundError && /not available yet/.test(e.message));
  },
  async 'is told of an error in a stream'() {
    const stream = await client.chat.completions.create({ model, messages: [user('break')], stream: true });
    let text = '';
    await assert.rejects(async () => { for await (const c of stream) text += c.choices[0]?.delta?.content ?? ''; }, (e) => e instanceof OpenAI.APIError && /503/.test(e.message));
    assert.equal(text, 'One two ');
  },
  async 'may go away'() {
    const stream = await client.chat.completions.create({ model, messages: [user('plain')], stream: true });
    for await (const c of stream) { if (c.choices[0]?.delta?.content) break; }
    stream.controller.abort();
  },
});
