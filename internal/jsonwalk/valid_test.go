package jsonwalk_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/jsonwalk"
)

// FuzzValid compares both checks with the library, for whatever and for all that strings may hold.
func FuzzValid(f *testing.F) {
	nested := func(n int) string { return strings.Repeat(`{"a":[`, n) + strings.Repeat(`]}`, n) }
	many := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"%d":0,`, i)
		}
		return "{" + b.String() + `"x":1}`
	}
	for _, seed := range []string{
		``, ` `, `{}`, `[]`, `[ ]`, `{ }`, `3`, `-`, `-0`, `01`, `1.`, `1.5e`, `1E+5`, `-2.5e-3`, `.5`, `+1`, `0e1`,
		`true`, `tru`, `false`, `null`, `nul`, `truex`, `"a"b`, ` {"a" : [1 , {"b":[]}], "c":{}} `,
		`{"a":1,"a":2}`, `{"a":{"a":1},"b":[{"a":1},{"a":1}]}`, `{"a":1,"\u0061":2}`, `{"a":[{"b":1}],"b":{"c":1},"c":1}`,
		`{"a":{"b":1,"c":2},"b":1,"c":1,"a":1}`,
		`{"a"}`, `{"a":}`, `{"a":1,}`, `[1,]`, `[,1]`, `{,}`, `[}`, `{]`, `[1}`, `{"a":1]`, `{1:2}`, `[1 2]`, `{"a" 1}`, `}`,
		`"`, `"a`, `"\`, `"\"`, `"\x"`, `"\u12"`, `"\u12g4"`, `"\u00e9"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ude00\ud83d"`,
		`"\ud83d\u0041"`, `"\ud83dx"`, `"\\\/\b\f\n\r\t\""`, "\"\x00\"", "\"a\x1f\"", "\"\x7f\"",
		"\"\x80\"", "\"é世界\U0001f600\"",
		"\"\xed\xa0\x80\"", "\"\xff" + strings.Repeat("a", 20) + "\"", `"` + strings.Repeat("0123456", 20) + `\"x"`,
		nested(10), nested(31), nested(32), nested(33), many(60), many(63), many(64), many(200), "\ufeff{}",
	} {
		f.Add([]byte(seed))
		f.Add([]byte(`"` + seed + `"`))
		f.Add([]byte(`{"` + seed + `":[` + seed + `]}`))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		require.Equal(t, jsontext.Value(data).IsValid(), jsonwalk.Strict(data), "strict: %q", data)
		lax := jsontext.Value(data).IsValid(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
		require.Equal(t, lax, jsonwalk.Valid(data), "%q", data)
		r := jsonwalk.NewReader(data)
		stepThrough(&r)
		require.Equal(t, lax, r.End(), "step by step: %q", data)
	})
}

// stepThrough reads each value by itself.
func stepThrough(r *jsonwalk.Reader) {
	switch r.Kind() {
	case '{':
		r.Object(func(int, int) { stepThrough(r) })
	case '[':
		r.Array(func() { stepThrough(r) })
	default:
		r.Value()
	}
}

// The library's reader takes five to ten times as long.
func BenchmarkValid(b *testing.B) {
	text := strings.Repeat(`Why is the sky \"blue\", and why is it red in the evening?\n`, 300)
	body := []byte(`{"model":"a/m","messages":[{"role":"user","content":"` + text + `"}],"max_tokens":100}`)
	for name, valid := range map[string]func() bool{
		"strict":  func() bool { return jsonwalk.Strict(body) },
		"valid":   func() bool { return jsonwalk.Valid(body) },
		"library": func() bool { return jsontext.Value(body).IsValid() },
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				require.True(b, valid())
			}
		})
	}
}
