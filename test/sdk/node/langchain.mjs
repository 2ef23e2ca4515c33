// LangChain's chat model for OpenAI as a client of the gateway.

import { AIMessageChunk, HumanMessage, ToolMessage } from '@langchain/core/messages';
import { concat } from '@langchain/core/utils/stream';
import { ChatOpenAI } from '@langchain/openai';
import { add, check, collect, equal, key, runAll } from './gateway.mjs';
import { checkFacts, conversations, prompt, recordings, result } from './facts.mjs';

const chat = (r) =>
  new ChatOpenAI({
    model: r.model,
    apiKey: key,
    configuration: { baseURL: process.env.GATEWAY_URL + '/v1' },
    maxRetries: 0,
    timeout: 20_000,
    useResponsesApi: false,
    streamUsage: true,
    ...(r.effort && { modelKwargs: { reasoning_effort: r.effort } }),
  });

const tools = (r) => r.tools.map((tool) => ({ type: 'function', function: { ...tool, description: 'What it does.' } }));
const bound = (r) => (r.tools ? chat(r).bindTools(tools(r)) : chat(r));

// ask returns the message that answers, put together from its chunks where it is streamed.
async function ask(model, r, messages) {
  if (!r.stream) return model.invoke(messages);
  const chunks = await collect(model.stream(messages));
  return chunks.slice(1).reduce((sum, chunk) => concat(sum, chunk), chunks[0]);
}

const callsOf = (message) => message.tool_calls.map((call) => ({ name: call.name, arguments: call.args }));

const usageOf = (usage) => ({
  prompt: usage.input_tokens,
  completion: usage.output_tokens,
  cached: usage.input_token_details?.cache_read ?? 0,
  reasoning: usage.output_token_details?.reasoning ?? 0,
});

for (const r of recordings) {
  add(r.name, async () => {
    const question = [new HumanMessage(prompt(r))];
    if (r.schema) {
      const model = chat(r).withStructuredOutput(r.schema, { name: 'answer', method: 'jsonSchema', includeRaw: true });
      const { parsed, raw } = r.stream ? (await collect(model.stream(question))).at(-1) : await model.invoke(question);
      equal(parsed ?? JSON.parse(raw.content), r.object);
      return;
    }
    const message = await ask(bound(r), r, question);
    check(!r.stream || AIMessageChunk.isInstance(message), message);
    checkFacts(r, {
      text: message.content,
      reasoning: message.additional_kwargs.reasoning_content,
      calls: callsOf(message),
      finish: message.response_metadata.finish_reason,
      usage: usageOf(message.usage_metadata),
    });
  });
}

for (const r of conversations) {
  add(r.name, async () => {
    const model = bound(r);
    const messages = [new HumanMessage(prompt(r))];
    const first = await ask(model, r, messages);
    equal(callsOf(first), r.calls);
    messages.push(first, ...first.tool_calls.map((call) => new ToolMessage({ content: result, tool_call_id: call.id })));
    equal((await ask(model, r, messages)).content, r.text);
  });
}

process.exitCode = (await runAll()) ? 0 : 1;
