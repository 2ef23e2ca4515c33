package tokens

// counters returns how texts are counted, the first that matches first. The vocabularies of OpenAI are those of
// https://github.com/openai/tiktoken/blob/main/tiktoken/model.py, and its counts beside the text are from
// https://cookbook.openai.com/examples/how_to_count_tokens_with_tiktoken. The other figures were measured in
// November 2026 on answers that vendors had given with a usage, as the test of recordings in extproc/exchange
// prints them: vocabularies of other vendors differ by a few percent, but for Anthropic's, and what frames an
// answer or a call differs more.
func counters() []counter {
	framed := func(answer, call int64) Framing {
		return Framing{Chat: 3, Message: 4, Name: 1, Answer: answer, Call: call}
	}
	return []counter{
		{vendor: "echo", count: words, factor: 1, framing: Framing{Call: 1}},

		{model: "gpt-4o", count: o200k, factor: 1, framing: framed(0, 10)},
		{model: "chatgpt-4o", count: o200k, factor: 1, framing: framed(0, 10)},
		{model: "gpt-4.", count: o200k, factor: 1, framing: framed(0, 10)},
		{model: "gpt-4", count: cl100k, factor: 1, framing: framed(0, 10)},
		{model: "gpt-3.5", count: cl100k, factor: 1, framing: framed(0, 10)},
		{model: "gpt-35", count: cl100k, factor: 1, framing: framed(0, 10)},
		{model: "text-embedding-", count: cl100k, factor: 1},
		{model: "davinci-002", count: cl100k, factor: 1},
		{model: "babbage-002", count: cl100k, factor: 1},
		// Models whose answers come over channels, in OpenAI's harmony format.
		{model: "gpt-5", count: o200k, factor: 1, framing: framed(9, 10)},
		{model: "gpt-oss", count: o200k, factor: 1, framing: framed(9, 10)},
		{model: "o1", count: o200k, factor: 1, framing: framed(9, 10)},
		{model: "o3", count: o200k, factor: 1, framing: framed(9, 10)},
		{model: "o4", count: o200k, factor: 1, framing: framed(9, 10)},

		{model: "claude", count: o200k, factor: 1.15, framing: framed(0, 40)},
		{model: "gemini", count: o200k, factor: 1.02, framing: framed(0, 5)},
		{model: "deepseek", count: o200k, factor: 1.03, framing: framed(0, 30)},
		{model: "qwen", count: o200k, factor: 1.01, framing: framed(0, 19)},
		{model: "glm", count: o200k, factor: 1.02, framing: framed(0, 15)},
		{model: "grok", count: o200k, factor: 1, framing: framed(0, 18)},
		{model: "llama", count: o200k, factor: 1, framing: framed(0, 17)},
		{vendor: "cohere", count: o200k, factor: 1.04, framing: framed(0, 30)},
		{vendor: "mistral", count: o200k, factor: 1.02, framing: framed(0, 6)},
		{count: o200k, factor: 1, framing: framed(0, 10)},
	}
}
