package offered_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/inbound/dialects"
	"github.com/modelgate/modelgate/internal/offered"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/all"
)

// shapes are tools as clients may write them. %s is the name of a function that must be reported.
var shapes = []string{
	`{"type":"function","function":{"name":"%s","parameters":{"type":"object","properties":{}}}}`,
	`{"type":"function","name":"%s","parameters":{"type":"object","properties":{}}}`,
	`{"type":"function","name":"get","function":{"name":"%s"}}`,
	`{"type":"function","name":"%s","function":{"name":"get"}}`,
	`{"type":"custom","custom":{"name":"%s"}}`,
	`{"type":"custom","name":"%s","input_schema":{"type":"object"}}`,
	`{"name":"%s","input_schema":{"type":"object"}}`,
	`{"name":"%s","description":"d"}`,
	`{"type":"namespace","name":"get","tools":[{"type":"function","name":"%s"}]}`,
	`{"functionDeclarations":[{"name":"%s"}]}`,
	`{"function_declarations":[{"name":"%s"}],"googleSearch":{}}`,
	`{"name":"get","functionDeclarations":[{"name":"%s"}]}`,
	`{"type":"function","functionDeclarations":[{"name":"%s"}]}`,
	`{"toolSpec":{"name":"%s","inputSchema":{"json":{}}}}`,
	`{"type":"unheard_of","name":"%s"}`,
	`{"type":"bash_20250124","name":"%s","input_schema":{"type":"object"}}`,
	`{"t\u0079pe":"function","functio\u006e":{"nam\u0065":"%s"}}`,
}

// members are where tools may stand.
var places = []string{`"tools":[%s]`, `"tools":%s`, `"to\u006fls":[%s]`, `"Tools":[%s]`, `"TOOLS":%s`,
	`"functions":[%s]`, `"toolConfig":{"tools":[%s]}`, `"extra_body":{"tools":[%s]}`}

var requests = map[string]string{
	"/v1/chat/completions":             `{"model":"m","messages":[{"role":"user","content":"hi"}],%s}`,
	"/v1/completions":                  `{"model":"m","prompt":"hi",%s}`,
	"/v1/responses":                    `{"model":"m","input":"hi","store":false,%s}`,
	"/v1/messages":                     `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}],%s}`,
	"/v1beta/models/m:generateContent": `{"contents":[{"role":"user","parts":[{"text":"hi"}]}],%s}`,
}

// TestWhatVendorsGetIsReported: what a vendor's body has, in any place, is among what is reported of it, or something
// unknown is. The test reads bodies by their text alone. A tool that the client has not offered is reported as one.
func TestWhatVendorsGetIsReported(t *testing.T) {
	vendors := all.Providers()
	random := rand.New(rand.NewPCG(7, 7))
	sent := 0
	for _, path := range slices.Sorted(maps.Keys(requests)) {
		op := dialects.Find(path, "")
		require.NotNil(t, op, path)
		for _, place := range places {
			for i, shape := range shapes {
				marker := fmt.Sprintf("mark%dx%d", i, random.Uint32())
				body := fmt.Sprintf(requests[path], fmt.Sprintf(place, fmt.Sprintf(shape, marker)))
				r, err := op.Parse(inbound.Head{Path: path, ContentType: "application/json"}, []byte(body))
				if err != nil {
					continue
				}
				for _, name := range slices.Sorted(maps.Keys(vendors)) {
					v := vendors[name]
					out, _, err := r.Encode(&v, provider.Target{Config: &configv1.Provider{Name: name, Vendor: name}, Model: "m"})
					if err == nil && strings.Contains(plainText(t, out.Body), marker) {
						sent++
						requireReported(t, []byte(body), out.Body, marker, name+" "+body)
					}
				}
			}
		}
	}
	require.Greater(t, sent, 500, "vendors get tools")
}

// requireReported requires that a name in a vendor's body is reported, and that it is covered by what the client sent.
func requireReported(t *testing.T, body, out []byte, marker, what string) {
	t.Helper()
	l, unknown := read(string(out)), false
	asked := read(string(body)).Cover(func(*offered.Tool) bool { return true })
	reported := false
	for i := range l.Tools {
		tool := &l.Tools[i]
		unknown = unknown || tool.Kind == offered.Unknown
		if tool.Kind <= offered.Custom && strings.Contains(tool.Name, marker) {
			reported = true
			require.True(t, asked.Has(tool) || hasUnknown(read(string(body))), "%s gets %s", what, tool.Name)
		}
	}
	require.True(t, reported || unknown, "%s: %s", what, out)
}

func hasUnknown(l *offered.List) bool {
	return slices.ContainsFunc(l.Tools, func(t offered.Tool) bool { return t.Kind == offered.Unknown })
}

// plainText returns a body without escapes.
func plainText(t *testing.T, body []byte) string {
	t.Helper()
	if len(body) == 0 {
		return ""
	}
	var v any
	require.NoError(t, json.Unmarshal(body, &v))
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}
