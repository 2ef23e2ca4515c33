// Cases of streamed answers.

import { checkParallel, model, tools, tripFormat } from './answers.mjs';
import { add, check, collect, equal, user } from './gateway.mjs';

const text = 'one two  three,\nünd more';

// checkChunks checks what every stream of the text must be.
function checkChunks(chunks, usage) {
  for (const chunk of chunks) equal([chunk.object, chunk.model, chunk.id], ['chat.completion.chunk', model, chunks[0].id]);
  if (usage) {
    const last = chunks.pop();
    equal(last.choices, []);
    equal(last.usage.total_tokens, last.usage.prompt_tokens + last.usage.completion_tokens);
    check(last.usage.completion_tokens > 0, last.usage);
    // Where usage was asked for, the other chunks say that it is not known yet.
    for (const chunk of chunks) equal(chunk.usage, null);
  } else {
    for (const chunk of chunks) check(!('usage' in chunk), chunk);
  }
  const choices = chunks.map((chunk) => {
    equal(chunk.choices.length, 1);
    return chunk.choices[0];
  });
  equal(choices.map((c) => c.delta.role).filter(Boolean), ['assistant']);
  equal(choices.map((c) => c.delta.content ?? '').join(''), text);
  check(choices.filter((c) => c.delta.content).length > 1, 'it came as a whole');
  equal(choices.map((c) => c.finish_reason).filter(Boolean), ['stop']);
  equal(choices.at(-1).finish_reason, 'stop');
}

add('streamed', async (c) => {
  for (const changes of [{}, { stream_options: { include_usage: false } }]) {
    checkChunks(await collect(c.chat.completions.create({ model, messages: user(text), stream: true, ...changes })), false);
  }
});

add('streamed with usage', async (c) => {
  const request = { model, messages: user(text), stream: true, stream_options: { include_usage: true } };
  checkChunks(await collect(c.chat.completions.create(request)), true);
});

add('streamed, put together', async (c) => {
  const stream = c.chat.completions.stream({ model, messages: user(text), stream_options: { include_usage: true } });
  let deltas = '';
  stream.on('content', (delta) => (deltas += delta));
  equal(await stream.finalContent(), text);
  equal(deltas, text);
  check((await stream.totalUsage()).completion_tokens > 0, 'no usage');
});

add('streamed tool calls', async (c) => {
  const stream = c.chat.completions.stream({ model, messages: user('call get_weather and get_time'), tools });
  const done = [];
  let deltas = '';
  stream.on('tool_calls.function.arguments.done', (e) => done.push([e.index, e.name]));
  stream.on('tool_calls.function.arguments.delta', (e) => (deltas += e.index === 0 ? e.arguments_delta : ''));
  const completion = await stream.finalChatCompletion();
  checkParallel(completion);
  equal(done, [[0, 'get_weather'], [1, 'get_time']]);
  equal(deltas, completion.choices[0].message.tool_calls[0].function.arguments);
});

add('streamed structured output', async (c) => {
  const stream = c.chat.completions.stream({ model, messages: user('plan'), response_format: tripFormat });
  const done = await stream.finalChatCompletion();
  check(done.choices[0].message.parsed.stops.length > 0, done);
});

add('cancel in mid-stream', async (c) => {
  for (const cancel of [(stream) => stream.controller.abort(), () => {}]) {
    const stream = await c.chat.completions.create({ model: 'claude/endless', messages: user('hi'), stream: true });
    let got = '';
    for await (const chunk of stream) {
      got += chunk.choices[0]?.delta.content ?? '';
      if (got) {
        cancel(stream); // to leave the loop cancels, too
        break;
      }
    }
    check(got, 'no text came');
    const done = await c.chat.completions.create({ model, messages: user('still there') });
    equal(done.choices[0].message.content, 'still there');
  }
});
