// Cases of what vendors once answered, as the SDK's own accumulators read it.

import { add, equal, user } from './gateway.mjs';
import { checkFacts, conversations, prompt, recordings, result } from './facts.mjs';

const tools = (r) => r.tools?.map((tool) => ({ type: 'function', function: { ...tool, strict: true } }));

const request = (r) => ({
  model: r.model,
  messages: user(prompt(r)),
  ...(r.tools && { tools: tools(r) }),
  ...(r.effort && { reasoning_effort: r.effort }),
  ...(r.schema && {
    response_format: { type: 'json_schema', json_schema: { name: 'answer', schema: r.schema, strict: true } },
  }),
});

const callsOf = (message) =>
  (message.tool_calls ?? []).map((call) => ({ name: call.function.name, arguments: JSON.parse(call.function.arguments) }));

const usageOf = (usage) => ({
  prompt: usage.prompt_tokens,
  completion: usage.completion_tokens,
  cached: usage.prompt_tokens_details?.cached_tokens ?? 0,
  reasoning: usage.completion_tokens_details?.reasoning_tokens ?? 0,
});

// streamed puts a streamed answer together. The accumulator keeps only the last piece of members that it does not know.
async function streamed(c, given) {
  const stream = c.chat.completions.stream({ ...given, stream_options: { include_usage: true } });
  let reasoning = '';
  stream.on('chunk', (chunk) => (reasoning += chunk.choices[0]?.delta.reasoning_content ?? ''));
  return [await stream.finalChatCompletion(), reasoning];
}

for (const r of recordings) {
  add(r.name, async (c) => {
    let done, reasoning;
    if (r.stream) [done, reasoning] = await streamed(c, request(r));
    else done = await c.chat.completions.parse(request(r));
    equal([done.model, done.choices.length], [r.model, 1]);
    const [{ message, finish_reason: finish }] = done.choices;
    reasoning ??= message.reasoning_content;
    checkFacts(r, { text: message.content, reasoning, calls: callsOf(message), finish, usage: usageOf(done.usage) });
    equal(new Set(message.tool_calls?.map((call) => call.id)).size, r.calls?.length ?? 0);
    for (const [i, call] of (message.tool_calls ?? []).entries()) equal(call.function.parsed_arguments, r.calls[i].arguments);
  });
}

for (const r of conversations) {
  add(r.name, async (c) => {
    const given = request(r);
    const ask = async () =>
      (r.stream ? (await streamed(c, given))[0] : await c.chat.completions.create(given)).choices[0];
    const { message } = await ask();
    equal(callsOf(message), r.calls);
    given.messages = [
      ...given.messages,
      message,
      ...message.tool_calls.map((call) => ({ role: 'tool', tool_call_id: call.id, content: result })),
    ];
    const second = await ask();
    equal([second.message.content, second.finish_reason], [r.text, 'stop']);
  });

  add(`${r.name}, runTools`, async (c) => {
    const asked = [];
    const runnable = r.tools.map(({ name, parameters }) => ({
      type: 'function',
      function: { name, parameters, parse: JSON.parse, function: (a) => (asked.push({ name, arguments: a }), result) },
    }));
    const runner = c.chat.completions.runTools({ ...request(r), tools: runnable, stream: r.stream });
    equal(await runner.finalContent(), r.text);
    equal(asked, r.calls);
  });
}
