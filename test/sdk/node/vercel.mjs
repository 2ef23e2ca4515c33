// The Vercel AI SDK's chat models as clients of the gateway: that for any endpoint of OpenAI's dialect, and that for OpenAI,
// which shows no reasoning.

import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateObject, generateText, jsonSchema, stepCountIs, streamObject, streamText, tool } from 'ai';
import { add, equal, key, runAll } from './gateway.mjs';
import { checkFacts, conversations, prompt, recordings, result } from './facts.mjs';

const baseURL = process.env.GATEWAY_URL + '/v1';
const compatible = createOpenAICompatible({ name: 'gateway', baseURL, apiKey: key, includeUsage: true, supportsStructuredOutputs: true });
const openai = createOpenAI({ baseURL, apiKey: key });

const models = [
  { suffix: '', model: (id) => compatible.chatModel(id), reasons: true },
  { suffix: ', by @ai-sdk/openai', model: (id) => openai.chat(id), reasons: false },
];

// options are those of any call. run answers the calls of tools; without it they are the caller's.
function options(r, model, run) {
  const tools = (r.tools ?? []).map(({ name, parameters }) => [
    name,
    tool({ description: 'What it does.', inputSchema: jsonSchema(parameters), execute: run && ((a) => run(name, a)) }),
  ]);
  return {
    model: model(r.model),
    prompt: prompt(r),
    maxRetries: 0,
    abortSignal: AbortSignal.timeout(20_000),
    ...(tools.length && { tools: Object.fromEntries(tools) }),
    ...(r.effort && { providerOptions: { gateway: { reasoningEffort: r.effort }, openai: { reasoningEffort: r.effort } } }),
  };
}

// settled awaits what a stream tells only when it has ended. An error is a part of the stream.
async function settled(stream) {
  for await (const part of stream.fullStream) if (part.type === 'error') throw part.error;
  const got = {};
  for (const name of ['text', 'reasoningText', 'toolCalls', 'finishReason', 'usage', 'totalUsage', 'response', 'object', 'steps']) {
    if (name in stream) got[name] = await stream[name];
  }
  return got;
}

const callsOf = (calls) => calls?.map((call) => ({ name: call.toolName, arguments: call.input }));

const usageOf = (usage) => ({
  prompt: usage.inputTokens,
  completion: usage.outputTokens,
  cached: usage.inputTokenDetails?.cacheReadTokens ?? usage.cachedInputTokens ?? 0,
  reasoning: usage.outputTokenDetails?.reasoningTokens ?? usage.reasoningTokens ?? 0,
});

for (const { suffix, model, reasons } of models) {
  for (const r of recordings) {
    add(r.name + suffix, async () => {
      const given = options(r, model);
      const shape = { ...given, schema: r.schema && jsonSchema(r.schema) };
      const got = r.schema
        ? await (r.stream ? settled(streamObject(shape)) : generateObject(shape))
        : await (r.stream ? settled(streamText(given)) : generateText(given));
      equal(got.response.modelId, r.model);
      checkFacts(r, {
        text: got.text,
        object: got.object,
        calls: callsOf(got.toolCalls),
        finish: got.finishReason.replace('-', '_'),
        usage: usageOf(got.usage),
        ...(reasons && !r.schema && { reasoning: got.reasoningText }),
      });
    });
  }

  for (const r of conversations) {
    add(r.name + suffix, async () => {
      const asked = [];
      const run = (name, a) => (asked.push({ name, arguments: a }), result);
      const given = { ...options(r, model, run), stopWhen: stepCountIs(3) };
      const got = await (r.stream ? settled(streamText(given)) : generateText(given));
      equal(asked, r.calls);
      equal([got.steps.length, got.text, got.finishReason], [2, r.text, 'stop']);
    });
  }
}

process.exitCode = (await runAll()) ? 0 : 1;
