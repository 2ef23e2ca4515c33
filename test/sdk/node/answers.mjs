// Cases of complete answers, by the built-in provider: it repeats the last message of the user.

import OpenAI from 'openai';
import { zodFunction, zodResponseFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import { add, check, equal, raises, user } from './gateway.mjs';

export const model = 'echo/echo';
const pixel =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
export const image = [
  {
    role: 'user',
    content: [
      { type: 'text', text: 'what is this' },
      { type: 'image_url', image_url: { url: pixel, detail: 'low' } },
    ],
  },
];
const weather = z.object({ city: z.string(), days: z.number().int() });
export const tools = [
  zodFunction({ name: 'get_weather', parameters: weather }),
  zodFunction({ name: 'get_time', parameters: z.object({ zone: z.string() }) }),
];
const trip = z.object({ city: z.string(), days: z.number().int(), stops: z.array(z.string()) });
export const tripFormat = zodResponseFormat(trip, 'trip');

add('unary', async (c) => {
  const done = await c.chat.completions.create({ model, messages: user('hello there, wörld') });
  equal([done.object, done.model], ['chat.completion', model]);
  check(done.id.startsWith('chatcmpl-'), done.id);
  check(done.created > 1_700_000_000, done);
  equal(done.choices.length, 1);
  const [choice] = done.choices;
  equal([choice.index, choice.finish_reason], [0, 'stop']);
  equal([choice.message.role, choice.message.content], ['assistant', 'hello there, wörld']);
  check(done.usage.prompt_tokens > 0 && done.usage.completion_tokens > 0, done.usage);
  equal(done.usage.total_tokens, done.usage.prompt_tokens + done.usage.completion_tokens);
});

add('request id', async (c) => {
  const ids = new Set();
  for (let i = 0; i < 2; i++) ids.add((await c.chat.completions.create({ model, messages: user('hi') }))._request_id);
  const { data, response, request_id } = await c.chat.completions.create({ model, messages: user('hi') }).withResponse();
  equal([data._request_id, response.headers.get('x-request-id')], [request_id, request_id]);
  ids.add(request_id);
  equal(ids.size, 3);
  for (const id of ids) check(/^[\w.-]{8,128}$/.test(id ?? ''), id);
});

add('system and developer messages', async (c) => {
  const done = await c.chat.completions.create({
    model,
    messages: [{ role: 'system', content: 'Be brief.' }, { role: 'developer', content: 'Be kind.' }, ...user('hi')],
  });
  equal(done.choices[0].message.content, 'hi');
});

add('image', async (c) => {
  const done = await c.chat.completions.create({ model, messages: image });
  equal(done.choices[0].message.content, 'what is this');
});

add('a tool is called', async (c) => {
  for (const tool_choice of ['required', { type: 'function', function: { name: 'get_weather' } }]) {
    const done = await c.chat.completions.create({ model, messages: user('hi'), tools, tool_choice });
    equal(done.choices[0].finish_reason, 'tool_calls');
    equal(done.choices[0].message.content, null);
    equal(done.choices[0].message.tool_calls.length, 1);
    const [call] = done.choices[0].message.tool_calls;
    equal([call.type, call.function.name], ['function', 'get_weather']);
    equal(Object.keys(JSON.parse(call.function.arguments)).sort(), ['city', 'days']);
    check(call.id, 'no id');
  }
});

export function checkParallel(done) {
  equal(done.choices[0].finish_reason, 'tool_calls');
  const calls = done.choices[0].message.tool_calls;
  equal(calls.map((call) => call.function.name), ['get_weather', 'get_time']);
  equal(new Set(calls.map((call) => call.id)).size, 2);
  weather.parse(calls[0].function.parsed_arguments);
}

const callBoth = { model, messages: user('call get_weather and get_time'), tools };

add('parallel tool calls', async (c) => {
  checkParallel(await c.chat.completions.parse({ ...callBoth, parallel_tool_calls: true }));
});

add('tool results in a conversation of several turns', async (c) => {
  const messages = [...callBoth.messages];
  const ask = async () => (await c.chat.completions.create({ model, messages, tools })).choices[0];
  const first = (await ask()).message;
  messages.push(first); // as the SDK returned it
  for (const call of first.tool_calls) messages.push({ role: 'tool', tool_call_id: call.id, content: 'sunny' });
  const second = await ask();
  equal(second.finish_reason, 'stop');
  messages.push(second.message, ...user('thanks'));
  equal((await ask()).message.content, 'thanks');
});

add('runTools', async (c) => {
  const asked = [];
  const runner = c.chat.completions.runTools({
    model,
    messages: callBoth.messages,
    tools: [
      { type: 'function', function: { name: 'get_weather', parameters: tools[0].function.parameters, parse: JSON.parse,
        function: (a) => { asked.push(['get_weather', ...Object.keys(a).sort()]); return 'sunny'; } } },
      { type: 'function', function: { name: 'get_time', parameters: tools[1].function.parameters, parse: JSON.parse,
        function: (a) => { asked.push(['get_time', ...Object.keys(a)]); return 'noon'; } } },
    ],
  });
  equal(await runner.finalContent(), callBoth.messages[0].content);
  equal(asked, [['get_weather', 'city', 'days'], ['get_time', 'zone']]);
});

add('structured output', async (c) => {
  const done = await c.chat.completions.parse({ model, messages: user('plan'), response_format: tripFormat });
  const { message } = done.choices[0];
  check(message.parsed.stops.length > 0, message);
  equal(JSON.parse(message.content), trip.parse(message.parsed));
});

add('list of models', async (c) => {
  const found = new Map();
  for await (const m of c.models.list()) found.set(m.id, m);
  check(found.has(model) && found.has('claude/text'), [...found.keys()]);
  equal(found.get(model).object, 'model');
  check(found.get(model).owned_by, found.get(model));
  equal([...found.keys()], [...found.keys()].sort());
});

add('a model whose id has a slash', async (c) => {
  for (const id of [model, 'claude/text']) equal((await c.models.retrieve(id)).id, id);
  const e = await raises(OpenAI.NotFoundError, () => c.models.retrieve('nobody/nothing'));
  equal([e.status, e.code], [404, 'model_not_found']);
});
