// The APIs in which the playground asks: what a request is in each, and what its events mean.
"use strict";

const escaped = (body) => JSON.stringify(body).replaceAll("'", "'\\''");
const inPython = (body) => `json.loads(${JSON.stringify(JSON.stringify(body))})`;
const openai = (base) => `import json, openai\n\nclient = openai.OpenAI(base_url=${JSON.stringify(base + "/v1")})  # reads OPENAI_API_KEY\n`;

// curl asks a path of the gateway. The key is in the environment.
const curl = (base, path, body) => `curl "${base}${path}" \\\n  -H "Authorization: Bearer $OPENAI_API_KEY" -H "Content-Type: application/json" \\\n  -d '${escaped(body)}'\n`;

// used names numbers of tokens.
const used = (input, output) => ({ input, output });

// given drops the members that are not set.
const given = (body) => Object.fromEntries(Object.entries(body).filter(([, v]) => v !== undefined));

// An API has request(asked), the request of a conversation; streamed, what makes it a stream; read(event, seen), which
// returns the event's text and adds usage to seen, or throws an error that is in the event; and the code of clients.
const APIS = {
  chat: {
    path: () => "/v1/chat/completions",
    streamed: { stream: true, stream_options: { include_usage: true } },
    request: ({ model, system, messages, most, temperature, effort }) => given({
      model, messages: system ? [{ role: "system", content: system }, ...messages] : messages,
      max_completion_tokens: most, temperature, reasoning_effort: effort,
    }),
    read(event, seen) {
      if (event.error) throw new Error(event.error.message);
      if (event.usage) seen.usage = used(event.usage.prompt_tokens, event.usage.completion_tokens);
      return event.choices?.[0]?.delta?.content;
    },
    python: (base, body) => openai(base) + `print(client.chat.completions.create(**${inPython(body)}).choices[0].message.content)\n`,
  },
  messages: {
    path: () => "/v1/messages",
    streamed: { stream: true },
    request: ({ model, system, messages, most, temperature, effort }) => given({
      model, system, messages, max_tokens: most ?? 4096, temperature, output_config: effort && { effort: effort === "minimal" ? "low" : effort },
    }),
    read(event, seen) {
      if (event.type === "error") throw new Error(event.error.message);
      const u = { ...seen.anthropic, ...event.message?.usage, ...event.usage };
      seen.anthropic = u;
      seen.usage = used((u.input_tokens ?? 0) + (u.cache_read_input_tokens ?? 0) + (u.cache_creation_input_tokens ?? 0), u.output_tokens ?? 0);
      return event.delta?.text;
    },
    python: (base, body) => `import json, os, anthropic\n\nclient = anthropic.Anthropic(base_url=${JSON.stringify(base)}, auth_token=os.environ["OPENAI_API_KEY"])\n` +
      `print(client.messages.create(**${inPython(body)}).content[0].text)\n`,
  },
  responses: {
    path: () => "/v1/responses",
    streamed: { stream: true },
    request: ({ model, system, messages, most, temperature, effort }) => given({
      model, instructions: system, input: messages, max_output_tokens: most, temperature, reasoning: effort && { effort },
    }),
    read(event, seen) {
      if (event.type === "error") throw new Error(event.message);
      if (event.type === "response.failed") throw new Error(event.response.error.message);
      const u = event.response?.usage;
      if (u) seen.usage = used(u.input_tokens, u.output_tokens);
      return event.type === "response.output_text.delta" ? event.delta : undefined;
    },
    python: (base, body) => openai(base) + `print(client.responses.create(**${inPython(body)}).output_text)\n`,
  },
  gemini: {
    path: (model) => `/v1beta/models/${model}:generateContent`,
    streamed: {}, // the path says so
    request: ({ system, messages, most, temperature, effort }) => given({
      systemInstruction: system && { parts: [{ text: system }] },
      contents: messages.map((m) => ({ role: m.role === "assistant" ? "model" : "user", parts: [{ text: m.content }] })),
      generationConfig: given({ maxOutputTokens: most, temperature, thinkingConfig: effort && { thinkingLevel: effort.toUpperCase() } }),
    }),
    read(event, seen) {
      if (event.error) throw new Error(event.error.message);
      const u = event.usageMetadata;
      if (u) seen.usage = used(u.promptTokenCount ?? 0, (u.candidatesTokenCount ?? 0) + (u.thoughtsTokenCount ?? 0));
      return event.candidates?.[0]?.content?.parts?.filter((p) => !p.thought).map((p) => p.text ?? "").join("");
    },
    python: (base, body, model) => `import json, os\nfrom google import genai\n\nclient = genai.Client(api_key=os.environ["OPENAI_API_KEY"], http_options={"base_url": ${JSON.stringify(base)}})\n` +
      `request = ${inPython(body)}\nconfig = {**request["generationConfig"], "system_instruction": request.get("systemInstruction")}\n` +
      `print(client.models.generate_content(model=${JSON.stringify(model)}, contents=request["contents"], config=config).text)\n`,
  },
};
