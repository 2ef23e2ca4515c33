// Google's SDK for TypeScript as a client of the gateway: of Google's models, and of every other vendor's.

import { ApiError, GoogleGenAI } from '@google/genai';
import { conversations, prompt, recordings, result } from './facts.mjs';
import { add, check, equal, key, raises, runAll } from './gateway.mjs';

const stops = { stop: 'STOP', length: 'MAX_TOKENS', tool_calls: 'STOP', content_filter: 'SAFETY' };

const client = (apiKey = key) =>
  new GoogleGenAI({ apiKey, httpOptions: { baseUrl: process.env.GATEWAY_URL, timeout: 20_000 } });

const options = (r) => ({
  maxOutputTokens: 20_000,
  automaticFunctionCalling: { disable: true },
  thinkingConfig: { includeThoughts: true, ...(r.effort && { thinkingBudget: 2048 }) },
  ...(r.tools && {
    tools: [{ functionDeclarations: r.tools.map((t) => ({ name: t.name, parametersJsonSchema: t.parameters })) }],
  }),
  ...(r.schema && { responseMimeType: 'application/json', responseJsonSchema: r.schema }),
});

const user = (...parts) => ({ role: 'user', parts });

// ask returns the parts of an answer, its last chunk, and why it ended.
async function ask(r, contents) {
  const given = { model: r.model, contents, config: options(r) };
  const chunks = [];
  if (r.stream) for await (const chunk of await client().models.generateContentStream(given)) chunks.push(chunk);
  else chunks.push(await client().models.generateContent(given));
  const candidates = chunks.flatMap((chunk) => chunk.candidates?.slice(0, 1) ?? []);
  return {
    parts: candidates.flatMap((c) => c.content?.parts ?? []),
    usage: chunks.at(-1).usageMetadata,
    reason: candidates.map((c) => c.finishReason).filter(Boolean).at(-1),
  };
}

const textOf = (parts) => parts.filter((p) => p.text && !p.thought).map((p) => p.text).join('');
const callsOf = (parts) =>
  parts.filter((p) => p.functionCall).map((p) => ({ name: p.functionCall.name, arguments: p.functionCall.args ?? {} }));

function checkAnswer(r, { parts, usage: u, reason }) {
  // Claude's answer to the gateway's way of asking for an object.
  if (r.object && callsOf(parts).length) return equal(callsOf(parts).map((c) => c.arguments), [r.object]);
  equal(reason, stops[r.finish]);
  if (r.object) equal(JSON.parse(textOf(parts)), r.object);
  else equal(textOf(parts), r.text ?? '');
  equal(parts.filter((p) => p.thought && p.text).map((p) => p.text).join(''), r.reasoning ?? '');
  equal(callsOf(parts), r.calls ?? []);
  equal(
    [u.promptTokenCount, (u.candidatesTokenCount ?? 0) + (u.thoughtsTokenCount ?? 0), u.cachedContentTokenCount ?? 0],
    [r.usage.prompt, r.usage.completion, r.usage.cached],
  );
}

for (const r of recordings) add(r.name, async () => checkAnswer(r, await ask(r, [user({ text: prompt(r) })])));

for (const r of conversations) {
  add(r.name, async () => {
    const first = [user({ text: prompt(r) })];
    const { parts } = await ask(r, first);
    equal(callsOf(parts), r.calls);
    const results = parts.filter((p) => p.functionCall)
      .map(({ functionCall: { id, name } }) => ({ functionResponse: { id, name, response: { result } } }));
    const done = await ask(r, [...first, { role: 'model', parts }, user(...results)]);
    equal([textOf(done.parts), done.reason], [r.text, 'STOP']);
  });
}

const hello = { model: 'echo/echo', contents: 'Hello' };

add('a wrong key', async () => {
  const e = await raises(ApiError, () => client('sk-wrong').models.generateContent(hello));
  equal(e.status, 401);
});

add('an unknown model', async () => {
  const e = await raises(ApiError, () => client().models.generateContent({ ...hello, model: 'nobody/x' }));
  equal(e.status, 404);
});

add('tokens are counted', async () => {
  const { totalTokens: n } = await client().models.countTokens({ model: 'echo/echo', contents: 'How many tokens is this?' });
  check(n > 4 && n < 20, n);
});

add('embeddings', async () => {
  const { embeddings } = await client().models.embedContent({ model: 'echo/echo', contents: ['a', 'b'] });
  equal(embeddings.length, 2);
  check(embeddings[0].values.length > 0, embeddings);
});

add('models', async () => {
  const names = [];
  for await (const m of await client().models.list()) names.push(m.name);
  check(names.includes('models/echo/echo'), names);
});

add('a chat', async () => {
  const chat = client().chats.create({ model: 'echo/echo' });
  equal((await chat.sendMessage({ message: 'Hello' })).text, 'Hello');
  let again = '';
  for await (const chunk of await chat.sendMessageStream({ message: 'Again' })) again += chunk.text ?? '';
  equal(again, 'Again');
});

process.exitCode = (await runAll()) ? 0 : 1;
