package respcache_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/all"
	"github.com/modelgate/modelgate/internal/respcache"
	"github.com/modelgate/modelgate/internal/translate"
)

// members are members of a request, with values of which some look alike.
var members = map[string][]string{
	"model":             {`"m"`},
	"messages":          {`[{"role":"user","content":"hi"}]`, `[{"role":"user","content":"hi "}]`, `[{"content":"hi","role":"user"}]`, `[{"role":"system","content":"a"},{"role":"user","content":"hi"}]`, `[{"role":"user","content":"h\u0069"}]`, `[{"role":"user","content":[{"type":"text","text":"hi"}]}]`},
	"max_tokens":        {`1`, `10`, `1e1`, `null`},
	"temperature":       {`0`, `0.0`, `1`},
	"top_p":             {`1`, `0.5`},
	"stop":              {`"x"`, `["x"]`, `["x","y"]`, `["y","x"]`},
	"user":              {`"ann"`, `"bob"`},
	"stream":            {`true`, `false`},
	"seed":              {`1`, `2`},
	"metadata":          {`{"a":"1","b":"2"}`, `{"b":"2","a":"1"}`},
	"reasoning_effort":  {`"low"`, `"high"`},
	"response_format":   {`{"type":"json_object"}`, `{"type":"text"}`, `{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}}}}}`, `{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"string"}}}}}`},
	"tools":             {`[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]`, `[{"type":"function","function":{"name":"g","parameters":{"type":"object"}}}]`},
	"frequency_penalty": {`0`, `0.5`},
}

// randomRequest returns a request of some members, in some order and with some white space.
func randomRequest(r *rand.Rand) string {
	var parts []string
	for name, values := range members {
		if name != "model" && name != "messages" && r.IntN(5) > 0 {
			continue
		}
		parts = append(parts, fmt.Sprintf("%q%s:%s%s", name, space(r), space(r), loose(r, values[r.IntN(len(values))])))
	}
	slices.Sort(parts)
	r.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	return space(r) + "{" + strings.Join(parts, space(r)+","+space(r)) + "}" + space(r)
}

func space(r *rand.Rand) string { return []string{"", "", " ", "\n\t"}[r.IntN(4)] }

// loose returns a value, now and then with white space.
func loose(r *rand.Rand, value string) string {
	if r.IntN(2) == 0 {
		return value
	}
	v := jsontext.Value(value)
	_ = v.Indent()
	return string(v)
}

// TestEqualRequestsAreTheSameToEveryProvider: whatever two requests have the same key, each vendor gets the same for
// both, except for the order of the outermost members and the white space between them.
func TestEqualRequestsAreTheSameToEveryProvider(t *testing.T) {
	cache, err := respcache.Compile([]*configv1.ResponseCache{{Name: "c"}}, []byte("pepper"), nil, nil, nil, nil)
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(20, 6))
	asked := map[respcache.Key]string{}
	equal := 0
	for range 5000 {
		body := randomRequest(r)
		key := cache[0].Key(question(body))
		before, ok := asked[key]
		if !ok {
			asked[key] = body
			continue
		}
		equal++
		for name, p := range all.Providers() {
			require.Equal(t, encoded(t, p, before), encoded(t, p, body), "%s: %s and %s", name, before, body)
		}
	}
	require.Greater(t, equal, 500, "what proves nothing")
	require.Greater(t, len(asked), 500)
}

// encoded returns a vendor's request, or why there is none.
func encoded(t *testing.T, p provider.Provider, body string) string {
	t.Helper()
	parsed, err := translate.Parse(p, translate.Chat, []byte(body))
	if err != nil {
		return err.Error()
	}
	out, _, err := parsed.Encode(provider.Target{Config: &configv1.Provider{Name: "p", Vendor: p.Name}, Model: "m"})
	if err != nil {
		return err.Error()
	}
	text := jsontext.Value(out.Body)
	require.NoError(t, text.Canonicalize())
	return fmt.Sprint(out.Path, out.Header, string(text))
}
