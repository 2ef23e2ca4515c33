package reasoning

import (
	"testing"

	"github.com/modelgate/modelgate/api/openai"
)

func BenchmarkOf(b *testing.B) {
	r, err := openai.ParseChatRequest(
		[]byte(`{"model":"m","messages":[{"role":"user","content":"x"}],"temperature":1,"stream":true,"tools":[],"reasoning_effort":"low","max_tokens":100}`))
	if err != nil {
		b.Fatal(err)
	}
	c, err := r.Chat()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Of(r, c); err != nil {
			b.Fatal(err)
		}
	}
}
