// The official SDK's Responses API as a client of every vendor, with what the gateway stores.

import { BadRequestError, NotFoundError } from 'openai';
import { conversations, prompt, recordings, result } from './facts.mjs';
import { add, check, collect, equal, raises, runAll, user } from './gateway.mjs';

const options = (r) => ({
  model: r.model,
  input: user(prompt(r)),
  store: false,
  ...(r.tools && { tools: r.tools.map((t) => ({ type: 'function', ...t, strict: true })) }),
  ...(r.schema && { text: { format: { type: 'json_schema', name: 'answer', schema: r.schema, strict: true } } }),
  ...(r.effort && { reasoning: { effort: r.effort, summary: 'auto' } }),
});

const ask = async (c, r, given) => (r.stream ? c.responses.stream(given).finalResponse() : c.responses.create(given));

const of = (response, type) => response.output.filter((i) => i.type === type);
const callsOf = (response) =>
  of(response, 'function_call').map((i) => ({ name: i.name, arguments: JSON.parse(i.arguments) }));
const reasoningOf = (response) => of(response, 'reasoning').flatMap((i) => i.summary.map((s) => s.text)).join('');

function checkAnswer(r, done) {
  equal([done.object, done.model], ['response', r.model]);
  equal(done.status, ['length', 'content_filter'].includes(r.finish) ? 'incomplete' : 'completed');
  if (r.object) equal(JSON.parse(done.output_text), r.object);
  else equal(done.output_text, r.text ?? '');
  equal(reasoningOf(done), r.reasoning ?? '');
  equal(callsOf(done), r.calls ?? []);
  equal(
    [done.usage.input_tokens, done.usage.output_tokens, done.usage.input_tokens_details.cached_tokens],
    [r.usage.prompt, r.usage.completion, r.usage.cached],
  );
}

// Vendors that serve the API themselves get requests as they are. Nothing of it is recorded.
const served = (r) => ['deepseek/', 'groq/', 'openrouter/'].some((vendor) => r.model.startsWith(vendor));

for (const r of [...recordings, ...conversations].filter(served)) {
  add(r.name, async (c) => {
    const e = await raises(BadRequestError, () => c.responses.create(options(r)));
    check(e.message.includes('POST /responses'), e);
  });
}

for (const r of recordings.filter((r) => !served(r))) add(r.name, async (c) => checkAnswer(r, await ask(c, r, options(r))));

for (const r of conversations.filter((r) => !served(r))) {
  add(r.name, async (c) => {
    const given = options(r);
    const first = await ask(c, r, given);
    equal(callsOf(first), r.calls);
    const results = of(first, 'function_call').map((i) => ({ type: 'function_call_output', call_id: i.call_id, output: result }));
    given.input = [...given.input, ...first.output, ...results];
    const done = await ask(c, r, given);
    equal([done.output_text, done.status], [r.text, 'completed']);
  });
}

const model = 'echo/echo';

add('a conversation by previous responses', async (c) => {
  const first = await c.responses.create({ model, input: 'one' });
  const second = await c.responses.stream({ model, input: 'two', previous_response_id: first.id }).finalResponse();
  equal([second.previous_response_id, second.output_text], [first.id, 'two']);
  equal((await c.responses.retrieve(second.id)).output_text, 'two');
  await c.responses.delete(second.id);
  await raises(NotFoundError, () => c.responses.retrieve(second.id));
});

add('a background response is streamed and resumed', async (c) => {
  const events = await collect(c.responses.create({ model, input: 'later and later', background: true, stream: true }));
  equal(events.at(-1).type, 'response.completed');
  const { id } = events[0].response;
  const again = await collect(c.responses.retrieve(id, { stream: true, starting_after: 2 }));
  equal(again.map((e) => e.sequence_number), events.slice(3).map((e) => e.sequence_number));
});

add('conversations', async (c) => {
  const { id } = await c.conversations.create({ items: [{ role: 'user', content: 'one' }] });
  await c.responses.create({ model, input: 'two', conversation: id });
  equal((await collect(c.conversations.items.list(id))).length, 3);
  equal((await c.conversations.delete(id)).deleted, true);
});

process.exitCode = (await runAll()) ? 0 : 1;
