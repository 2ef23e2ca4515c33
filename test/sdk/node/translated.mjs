// Cases of a provider that speaks another dialect: the SDK must not notice.

import { image, tools, tripFormat } from './answers.mjs';
import { add, check, collect, equal, user } from './gateway.mjs';

const reporter = 'claude/claude-haiku-4-5'; // tells what it was asked

async function report(c, request) {
  const done = await c.chat.completions.create({ model: reporter, ...request });
  equal(done.choices[0].finish_reason, 'stop');
  return JSON.parse(done.choices[0].message.content);
}

add('translated unary', async (c) => {
  const done = await c.chat.completions.create({ model: 'claude/text', messages: user('hi'), max_completion_tokens: 50 });
  equal([done.object, done.model], ['chat.completion', 'claude/text']);
  equal(done.choices[0].message.content, '\n  "result": 8\n}');
  equal(done.choices[0].finish_reason, 'stop');
  equal([done.usage.prompt_tokens, done.usage.completion_tokens, done.usage.total_tokens], [28, 12, 40]);
});

add('translated streamed', async (c) => {
  const chunks = await collect(
    c.chat.completions.create({
      model: 'claude/text',
      messages: user('hi'),
      stream: true,
      stream_options: { include_usage: true },
    }),
  );
  for (const chunk of chunks) equal([chunk.model, chunk.id], ['claude/text', chunks[0].id]);
  const { usage } = chunks.pop();
  equal([usage.prompt_tokens, usage.completion_tokens, usage.total_tokens], [16, 28, 44]);
  equal(
    chunks.map((chunk) => chunk.choices[0].delta.content ?? '').join(''),
    '\ndef pelican():\n    return "A large waterbird with a long bill and a throat pouch for catching fish."\n',
  );
  equal(chunks.map((chunk) => chunk.choices[0].finish_reason).filter(Boolean), ['stop']);
  const plain = await collect(c.chat.completions.create({ model: 'claude/text', messages: user('hi'), stream: true }));
  for (const chunk of plain) check(chunk.choices.length === 1 && !('usage' in chunk), chunk);
});

add('translated parallel tool calls', async (c) => {
  const done = await c.chat.completions.create({ model: 'claude/tools', messages: user('hi'), tools });
  equal(done.choices[0].finish_reason, 'tool_calls');
  const calls = done.choices[0].message.tool_calls;
  equal(calls.map((call) => call.function.name), ['get_timezone', 'final_result']);
  equal(JSON.parse(calls[1].function.arguments), { city: 'Sydney', country: 'Australia', population: 5312000 });
  equal(calls.map((call) => call.id), ['toolu_01RYjj1KsnCvtj9bmK2sZWRv', 'toolu_01XyJoBaLsPJKMnuWZTYKatf']);
});

add('translated streamed parallel tool calls', async (c) => {
  const done = await c.chat.completions.stream({ model: 'claude/tools', messages: user('hi'), tools }).finalChatCompletion();
  equal(done.choices[0].finish_reason, 'tool_calls');
  const calls = done.choices[0].message.tool_calls;
  equal(calls.map((call) => call.function.name), ['pelican_name_generator', 'pelican_name_generator']);
  equal(calls.map((call) => call.id), ['toolu_01LtHJmixrs9NcWQkK8hu8hj', 'toolu_01N8a4jWyf116qKTMqKKmjyt']);
  equal(calls.map((call) => JSON.parse(call.function.arguments)), [{}, {}]);
});

add('translated system and developer messages', async (c) => {
  const instructions = [{ role: 'system', content: 'Be brief.' }, { role: 'developer', content: 'Be kind.' }];
  const got = await report(c, { messages: [...instructions, ...user('hi')] });
  equal([got.system, got.turns], [['Be brief.', 'Be kind.'], ['user']]);
});

add('translated image', async (c) => {
  equal((await report(c, { messages: image })).images, ['image/png']);
});

add('translated tool results in a conversation of several turns', async (c) => {
  const first = await c.chat.completions.create({ model: 'claude/tools', messages: user('hi'), tools });
  const { message } = first.choices[0];
  const results = message.tool_calls.map((call, i) => ({ role: 'tool', tool_call_id: call.id, content: `result ${i}` }));
  const got = await report(c, { messages: [...user('hi'), message, ...results, ...user('and now?')], tools });
  equal([got.turns, got.results], [['user', 'assistant', 'user'], ['result 0', 'result 1']]);
  equal(got.tools, ['get_weather', 'get_time']);
});

add('translated structured output', async (c) => {
  const done = await c.chat.completions.parse({ model: reporter, messages: user('plan'), response_format: tripFormat });
  equal(done.choices[0].message.parsed, { city: 'Paris', days: 3, stops: ['Louvre'] });
});
