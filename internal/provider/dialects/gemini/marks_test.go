package gemini

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/provider"
)

// nativeEvents collects what a client of the dialect gets.
type nativeEvents struct{ said []byte }

func (s *nativeEvents) Put(e chat.Event) {
	if e.Kind == chat.KindNative {
		s.said = append(s.said, e.JSON...)
	}
}

// A client of the dialect goes on at another of Google's products, whose signatures are others.
func TestSignaturesGoToTheVendorThatMadeThem(t *testing.T) {
	const parts = `{"text":"thinks","thoughtSignature":"dGV4dA=="},` +
		`{"functionCall":{"name":"f","args":{}},"thoughtSignature":"Y2FsbA=="},{"functionCall":{"name":"g","args":{}}}`
	const answer = `{"candidates":[{"content":{"role":"model","parts":[` + parts + `]},"finishReason":"STOP"}],"modelVersion":"m"}`
	const theirs = `{"text":"thinks","thoughtSignature":""},` +
		`{"functionCall":{"name":"f","args":{}},"thoughtSignature":"skip_thought_signature_validator"},` +
		`{"functionCall":{"name":"g","args":{}}}`
	request := func(of string) []byte {
		return []byte(`{"contents":[{"role":"user","parts":[{"text":"hi"}]},{"role":"model","parts":[` + of + `]},` +
			`{"role":"user","parts":[{"functionResponse":{"name":"f","response":{}}}]}]}`)
	}
	for _, stream := range []bool{false, true} {
		for _, vendor := range []string{"gemini", "vertex"} {
			_, a := EncodeNative(vendor, "/m", provider.NativeRequest{Body: request(parts), Stream: stream})
			var got nativeEvents
			if asked := (chat.Asked{Model: "m"}); stream {
				s := a.Stream(asked)
				require.NoError(t, s.Decode([]byte("data: "+answer+"\n\n"), &got))
				require.NoError(t, s.Close(&got))
			} else {
				require.NoError(t, a.Decode([]byte(answer), asked, &got))
			}
			said := gjson.GetBytes(got.said, "candidates.0.content.parts").Raw
			said = said[1 : len(said)-1]
			require.NotEqual(t, parts, said)
			for to, want := range map[string]string{"gemini": theirs, "vertex": theirs, vendor: parts} {
				sent, _ := EncodeNative(to, "/m", provider.NativeRequest{Body: request(said), Stream: stream})
				require.Equal(t, string(request(want)), string(sent.Body), "%s to %s", vendor, to)
			}
		}
	}
	sent, _ := EncodeNative("vertex", "/m", provider.NativeRequest{Body: request(parts)})
	require.Equal(t, string(request(parts)), string(sent.Body), "whose is not known")
}
