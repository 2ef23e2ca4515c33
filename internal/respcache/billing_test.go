package respcache

import (
	"crypto/sha256"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/openai"
)

// A line about billing, which is another one in each request, is no part of the question.
func TestTheBillingLineIsNoPartOfTheQuestion(t *testing.T) {
	sum := func(body string) string {
		h := sha256.New()
		canonical(openai.MembersOf([]byte(body)), h)
		return string(h.Sum(nil))
	}
	const line, other = `x-anthropic-billing-header: cch=1;`, `x-anthropic-billing-header: cch=2;`
	for _, c := range []struct{ a, b string }{
		{`{"system":[{"type":"text","text":"` + line + `"},{"type":"text","text":"A"}]}`,
			`{"system":[{"type":"text","text":"` + other + `"},{"type":"text","text":"A"}]}`},
		{`{"system":"` + line + `\nA"}`, `{"system":"` + other + `\nA"}`},
		{`{"instructions":"` + line + `\nA"}`, `{"instructions":"` + other + `\nA"}`},
		{`{"messages":[{"role":"system","content":"` + line + `\nA"},{"role":"user","content":"B"}]}`,
			`{"messages":[{"role":"system","content":"` + other + `\nA"},{"role":"user","content":"B"}]}`},
		{`{"input":[{"role":"developer","content":[{"type":"input_text","text":"` + line + `"},{"type":"input_text","text":"A"}]}]}`,
			`{"input":[{"role":"developer","content":[{"type":"input_text","text":"` + other + `"},{"type":"input_text","text":"A"}]}]}`},
		{`{"systemInstruction":{"parts":[{"text":"` + line + `"},{"text":"A"}]},"contents":[]}`,
			`{"systemInstruction":{"parts":[{"text":"` + other + `"},{"text":"A"}]},"contents":[]}`},
		{`{"input":"A","client_metadata":{"turn":"1"}}`, `{"input":"A","client_metadata":{"turn":"2"}}`},
	} {
		require.Equal(t, sum(c.a), sum(c.b))
	}
	require.NotEqual(t, sum(`{"system":"`+line+`\nA"}`), sum(`{"system":"`+line+`\nB"}`))
	require.NotEqual(t, sum(`{"system":"`+line+`\nA"}`), sum(`{"system":"A`+line+`"}`))
	require.NotEqual(t, sum(`{"messages":[{"role":"user","content":"`+line+`"}]}`),
		sum(`{"messages":[{"role":"user","content":"`+other+`"}]}`), "what users say is theirs")
	require.NotEqual(t, sum(`{"messages":[{"role":"system","content":"`+line+`\nA"}]}`),
		sum(`{"messages":[{"role":"system","name":"n","content":"`+line+`\nA"}]}`))
}
