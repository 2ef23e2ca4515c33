//go:build !race

package guard

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/testenv/work"
)

// What a tenant writes costs no more than its length: four times the text at most eight times as many steps.
func TestHostileTextsInProportion(t *testing.T) {
	masks := set(t, finds(mask, configv1.SensitiveData_EMAIL))
	every := set(t, everyKind(), finds(block, configv1.SensitiveData_IP_ADDRESS),
		finds(observe, configv1.SensitiveData_EMAIL))
	request := func(s *Set, piece string) func(n int) {
		return func(n int) {
			var b strings.Builder
			b.WriteString(`{"messages":[{"content":"`)
			for i := 0; b.Len() < n; i++ {
				b.WriteString(strings.ReplaceAll(piece, "%d", fmt.Sprint(i)))
			}
			b.WriteString(`"}]}`)
			_, _ = s.Request(t.Context(), NewWork(), []byte(b.String()))
		}
	}
	for name, run := range map[string]func(n int){
		"addresses":                     request(masks, "a%d@x.de "),
		"addresses, which are observed": request(every, "a%d@x.de 1.2.3.999 "),
		"placeholders":                  request(masks, "[EMAIL_%d] a%d@x.de "),
		"brackets":                      request(masks, "a%d@x.de [[[[[[[["),
		"signs of addresses":            request(every, "@"),
		"parts of addresses":            request(every, "a."),
		"names without an address":      request(every, "a@"),
		"digits":                        request(every, "4111"),
		"groups of digits":              request(every, "4111 "),
		"numbers":                       request(every, "+1 (2"),
		"colons":                        request(every, "a:"),
		"beginnings of secrets":         request(every, "sk-eyJ.eyJ"),
		"beginnings of private keys":    request(every, "-----BEGIN PRIVATE KEY-----"),
		"capitals":                      request(every, "DE12 ABCD "),
		"backslashes":                   request(every, `\\`),
		"escapes of escapes":            request(every, `\\u0034\\\\n1`),
		"underscores":                   request(every, "1______"),
		"emphasis":                      request(every, "*4*`~"),
		"dashes":                        request(every, "1 - . - "),
		"digits of another script":      request(every, "４１１１ "),
		"addresses of another script":   request(every, "имя@пример."),
		"JSON in strings":               request(every, `{\"a\":\"4111\"} `),
		"lists in a string": func(n int) {
			text := strings.Repeat("[", 4000) + strings.Repeat(`"4111 1111",`, n/12) + "1" + strings.Repeat("]", 4000)
			_, _ = every.Request(t.Context(), NewWork(), openai.AppendString(nil, text))
		},
		"strings in strings": func(n int) {
			text := "4111 1111"
			for len(text) < n {
				text = `[` + string(openai.AppendString(nil, text)) + `,1]`
			}
			_, _ = every.Request(t.Context(), NewWork(), []byte(text))
		},
		"data in objects": func(n int) {
			depth := n / 45
			_, _ = every.Request(t.Context(), NewWork(), []byte(strings.Repeat(`{"type":"base64","data":"AAAA4111","source":`, depth)+`1`+
				strings.Repeat("}", depth)))
		},
		"parts that take turns": func(n int) {
			a := NewAnswer(every, &Masks{}, true, nil)
			for i := range n / 16 {
				require.NoError(t, a.Put(t.Context(), chat.Arguments(0, i%200, "some more 4111 "), sink{}))
			}
		},
		"arguments in pieces": func(n int) {
			a := NewAnswer(every, &Masks{}, true, nil)
			require.NoError(t, a.Put(t.Context(), chat.Arguments(0, 0, `{"a":"`), sink{}))
			for range n / 4 {
				require.NoError(t, a.Put(t.Context(), chat.Arguments(0, 0, `abcd`), sink{}))
			}
		},
		"a restored answer": func(n int) {
			r, err := masks.Request(t.Context(), NewWork(), []byte(`{"messages":[{"content":"a@b.de"}]}`))
			require.NoError(t, err)
			r.Masks.restore(strings.Repeat("[EMAIL_", n/7), nil)
		},
		"an answer of brackets": func(n int) {
			var b strings.Builder
			for i := range n / 100 {
				fmt.Fprintf(&b, "a%d@x.de ", i)
			}
			r, err := masks.Request(t.Context(), NewWork(), []byte(`{"messages":[{"content":"`+b.String()+`"}]}`))
			require.NoError(t, err)
			a := NewAnswer(nil, r.Masks, true, nil)
			for range n / 100 {
				require.NoError(t, a.Put(t.Context(), chat.Text(0, "x [EMAI"), sink{}))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			const size = 64 << 10
			small, large, ok := work.Proportional(100_000, func() { run(size) }, func() { run(4 * size) })
			require.True(t, ok, "%d KB take %d steps, and %d KB %d", size>>10, small.Steps, 4*size>>10, large.Steps)
		})
	}
}
