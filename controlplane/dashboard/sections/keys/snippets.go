package keys

import (
	"cmp"
	"strings"

	"github.com/modelgate/modelgate/controlplane/dashboard/page"
)

// A snippet is an example of a request for a client.
type snippet struct{ Name, Text string }

// snippets returns the environment variables of a key, and clients that read them. Only the variables have the key.
func snippets(base, key, model string) []snippet {
	base = strings.TrimRight(cmp.Or(base, page.NoGateway), "/")
	fill := strings.NewReplacer("$BASE", base, "$KEY", key, "$MODEL", model)
	all := []snippet{
		{"Environment variables", `export OPENAI_BASE_URL=$BASE/v1
export OPENAI_API_KEY=$KEY
export ANTHROPIC_BASE_URL=$BASE
export ANTHROPIC_AUTH_TOKEN=$KEY
`},
		{"curl", `curl "$OPENAI_BASE_URL/chat/completions" \
  -H "Authorization: Bearer $OPENAI_API_KEY" -H "Content-Type: application/json" \
  -d '{"model":"$MODEL","messages":[{"role":"user","content":"Hello"}]}'
`},
		{"Python", `import openai

client = openai.OpenAI()  # reads OPENAI_BASE_URL and OPENAI_API_KEY
answer = client.chat.completions.create(model="$MODEL", messages=[{"role": "user", "content": "Hello"}])
print(answer.choices[0].message.content)
`},
		{"Node", `import OpenAI from "openai";

const client = new OpenAI(); // reads OPENAI_BASE_URL and OPENAI_API_KEY
const answer = await client.chat.completions.create({ model: "$MODEL", messages: [{ role: "user", content: "Hello" }] });
console.log(answer.choices[0].message.content);
`},
		{"Go", `package main

import (
	"context"
	"fmt"

	"github.com/openai/openai-go/v3"
)

func main() {
	client := openai.NewClient() // reads OPENAI_BASE_URL and OPENAI_API_KEY
	answer, err := client.Chat.Completions.New(context.Background(), openai.ChatCompletionNewParams{
		Model:    "$MODEL",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hello")},
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(answer.Choices[0].Message.Content)
}
`},
	}
	for i := range all {
		all[i].Text = fill.Replace(all[i].Text)
	}
	return all
}

// modelFor returns a model that a key may use, as an example: the first that it names whole.
func modelFor(models []string) string {
	for _, m := range models {
		if !strings.Contains(m, "*") {
			return m
		}
	}
	return "provider/model"
}
