// Anthropic's SDK for TypeScript as a client of the gateway: of Claude, and of every other vendor.

import Anthropic, { AuthenticationError, BadRequestError, NotFoundError } from '@anthropic-ai/sdk';
import { conversations, prompt, recordings, result } from './facts.mjs';
import { add, check, equal, key, raises, runAll, user } from './gateway.mjs';

const stops = { stop: 'end_turn', length: 'max_tokens', tool_calls: 'tool_use', content_filter: 'refusal' };

const client = (changes) =>
  new Anthropic({ baseURL: process.env.GATEWAY_URL, apiKey: key, maxRetries: 0, timeout: 20_000, ...changes });

const options = (r) => ({
  model: r.model,
  messages: user(prompt(r)),
  max_tokens: r.effort ? 20_000 : 4096,
  ...(r.tools && { tools: r.tools.map((t) => ({ name: t.name, input_schema: t.parameters })) }),
  ...(r.schema && { output_config: { format: { type: 'json_schema', schema: r.schema } } }),
  ...(r.effort && { thinking: { type: 'enabled', budget_tokens: 2048 } }),
  // The recordings of Bedrock are Converse's, which alone takes this.
  ...(r.model.startsWith('bedrock/') && { cache_control: { type: 'ephemeral' } }),
});

const ask = async (r, given) =>
  r.stream ? client().messages.stream(given).finalMessage() : client().messages.create(given);

const of = (message, type) => message.content.filter((b) => b.type === type);
const textOf = (message) => of(message, 'text').map((b) => b.text).join('');
const callsOf = (message) => of(message, 'tool_use').map((b) => ({ name: b.name, arguments: b.input }));

function checkAnswer(r, done) {
  equal([done.type, done.role, done.model], ['message', 'assistant', r.model]);
  // Claude's own answer to the gateway's way of asking for an object.
  if (r.object && done.stop_reason === 'tool_use') return equal(callsOf(done).map((c) => c.arguments), [r.object]);
  equal(done.stop_reason.replace('stop_sequence', 'end_turn'), stops[r.finish]);
  if (r.object) equal(JSON.parse(textOf(done)), r.object);
  else equal(textOf(done), r.text ?? '');
  equal(of(done, 'thinking').map((b) => b.thinking).join(''), r.reasoning ?? '');
  equal(callsOf(done), r.calls ?? []);
  const u = done.usage;
  const cached = u.cache_read_input_tokens ?? 0;
  equal(
    [u.input_tokens + cached + (u.cache_creation_input_tokens ?? 0), u.output_tokens, cached],
    [r.usage.prompt, r.usage.completion, r.usage.cached],
  );
}

for (const r of recordings) add(r.name, async () => checkAnswer(r, await ask(r, options(r))));

for (const r of conversations) {
  add(r.name, async () => {
    const given = options(r);
    const message = await ask(r, given);
    equal(callsOf(message), r.calls);
    const results = of(message, 'tool_use').map((b) => ({ type: 'tool_result', tool_use_id: b.id, content: result }));
    given.messages = [...given.messages, { role: 'assistant', content: message.content }, { role: 'user', content: results }];
    const done = await ask(r, given);
    equal([textOf(done), done.stop_reason], [r.text, 'end_turn']);
  });
}

const hello = { model: 'echo/echo', max_tokens: 100, messages: user('Hello') };

add('a bearer token', async () =>
  equal(textOf(await client({ apiKey: null, authToken: key }).messages.create(hello)), 'Hello'));

add('a wrong key', async () => {
  const e = await raises(AuthenticationError, () => client({ apiKey: 'sk-wrong' }).messages.create(hello));
  equal(e.error.error.type, 'authentication_error');
  check(e.requestID, e);
});

add('an unknown model', () => raises(NotFoundError, () => client().messages.create({ ...hello, model: 'nobody/x' })));

add('a block of an unknown type', async () => {
  const messages = [{ role: 'user', content: [{ type: 'hologram' }] }];
  const e = await raises(BadRequestError, () => client().messages.create({ ...hello, messages }));
  check(e.message.includes('messages.0.content.0') && e.message.includes('hologram'), e);
});

add('an image', async () => {
  const source = { type: 'base64', media_type: 'image/png', data: pixel };
  const content = [{ type: 'image', source }, { type: 'text', text: 'What is it?' }];
  check(textOf(await client().messages.create({ ...hello, model: 'claude/text', messages: [{ role: 'user', content }] })), 'no text');
});

const pixel =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

add('a stream that the client leaves', async () => {
  const stream = client().messages.stream({ ...hello, messages: user('a '.repeat(500)) });
  for await (const event of stream) if (event.type === 'content_block_delta') break;
  check(stream.controller.signal.aborted, 'it goes on');
});

add('models', async () => {
  const ids = [];
  for await (const m of client().models.list()) ids.push(m.id);
  check(ids.includes('echo/echo'), ids);
});

add('tokens are counted', async () => {
  const { input_tokens: n } = await client().messages.countTokens({ model: 'echo/echo', messages: user('How many tokens is this?') });
  check(n > 4 && n < 20, n);
});

process.exitCode = (await runAll()) ? 0 : 1;
