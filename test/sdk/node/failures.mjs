// Cases of requests that fail: each is the SDK's own error, with what a program decides by.

import OpenAI from 'openai';
import { model } from './answers.mjs';
import { add, check, client, collect, equal, key, raises, user } from './gateway.mjs';

const messages = user('hi');

add('a wrong key', async () => {
  for (const apiKey of ['sk-mg-' + '0'.repeat(32), key.slice(0, -1), 'something else']) {
    const c = client({ apiKey });
    for (const ask of [() => c.chat.completions.create({ model, messages }), () => c.models.list()]) {
      const e = await raises(OpenAI.AuthenticationError, ask);
      equal([e.status, e.code, e.type], [401, 'invalid_api_key', 'invalid_request_error']);
      check(e.requestID, 'no request id');
    }
  }
});

add('an unknown model', async (c) => {
  for (const unknown of ['gpt-9', 'nobody/gpt-9']) {
    for (const stream of [false, true]) {
      const e = await raises(OpenAI.NotFoundError, () => c.chat.completions.create({ model: unknown, messages, stream }));
      equal([e.status, e.code, e.type], [404, 'model_not_found', 'invalid_request_error']);
      check(e.message.includes(unknown), e.message);
      check(e.requestID, 'no request id');
    }
  }
});

add('a parameter that is wrong', async (c) => {
  for (const [changes, param] of [
    [{ logprobs: true, top_logprobs: 21 }, 'top_logprobs'],
    [{ max_tokens: 0 }, 'max_tokens'],
    [{ temperature: 'hot' }, 'temperature'],
    [{ messages: [] }, 'messages'],
  ]) {
    const e = await raises(OpenAI.BadRequestError, () => c.chat.completions.create({ model, messages, ...changes }));
    equal([e.status, e.param, e.type], [400, param, 'invalid_request_error']);
    check(e.code && e.message && e.requestID, e);
  }
});

add('a rate limit of the provider', async (c) => {
  const e = await raises(OpenAI.RateLimitError, () => c.chat.completions.create({ model: 'claude/busy', messages }));
  equal([e.status, e.code], [429, 'rate_limit_exceeded']);
  equal(e.headers.get('retry-after'), '7');
});

const consume = (c, model) => collect(c.chat.completions.create({ model, messages, stream: true }));

add('an error within a stream is raised', async (c) => {
  const e = await raises(OpenAI.APIError, () => consume(c, 'claude/failing'));
  equal([e.code, e.type], ['overloaded', 'server_error']);
});

add('a stream that was cut is no complete answer', async (c) => {
  const e = await raises(OpenAI.APIError, () => consume(c, 'claude/truncated'));
  equal(e.code, 'upstream_truncated');
});

add('a connection that breaks in mid-stream is raised', async (c) => {
  const stream = await c.chat.completions.create({ model: 'claude/fragile', messages, stream: true });
  let broken = false;
  const e = await raises(Error, async () => {
    for await (const chunk of stream) {
      if (broken || !chunk.choices[0].delta.content) continue;
      broken = true;
      await c.chat.completions.create({ model: 'claude/break', messages });
    }
  });
  check(broken && e.status === undefined, e);
});
