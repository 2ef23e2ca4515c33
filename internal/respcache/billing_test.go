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
	} {
		require.Equal(t, sum(c.a), sum(c.b))
	}
	require.NotEqual(t, sum(`{"system":"`+line+`\nA"}`), sum(`{"system":"`+line+`\nB"}`))
	require.NotEqual(t, sum(`{"system":"`+line+`\nA"}`), sum(`{"system":"A`+line+`"}`))
}
