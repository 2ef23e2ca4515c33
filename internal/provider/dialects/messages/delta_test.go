package messages

import (
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/provider"
)

// FuzzReadDelta compares what is read in one pass with what json.Unmarshal reads.
func FuzzReadDelta(f *testing.F) {
	of := func(delta string) string { return `{"type":"content_block_delta","index":1,"delta":` + delta + `}` }
	for _, known := range []string{
		of(`{"type":"text_delta","text":" gateway"}`), of(`{"type":"text_delta","text":"a\n\"é\ud83d\ude00"}`),
		of(`{"type":"thinking_delta","thinking":"x","more":[1]}`), of(`{"partial_json":"{\"a","type":"input_json_delta"}`),
		` { "delta" : {"type":"text_delta","text":"世界"} , "p":"abc" , "type" : "content_block_delta" } `,
		of(`{"type":"text_delta","text":"a","text":"b"}`), of(`{}`),
	} {
		var e event
		require.True(f, e.readDelta([]byte(known)), known)
		f.Add([]byte(known))
	}
	for _, other := range []string{
		``, `{}`, `[]`, of(`{"type":"text_delta","text":"a"`), of(`{"type":"text_delta","text":null}`),
		of(`null`), of(`"x"`),
		of(`{"type":"text_delta","text":"\ud83d"}`), of("{\"type\":\"text_delta\",\"text\":\"\xff\"}"),
		of(`{"type":"signature_delta","signature":"x"}`), of(`{"type":"citations_delta","citation":{}}`),
		`{"type":"content_block_delta","index":1.5,"delta":{}}`, `{"type":"content_block_delta","index":"1","delta":{}}`,
		`{"type":"content_block_delta","delta":{"text":"a"},"usage":{"output_tokens":1}}`, `{"delta":{"text":"a"}}`,
		`{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, `{"type":"content_block_delta","delta":{}}x`,
	} {
		var e event
		require.False(f, e.readDelta([]byte(other)), other)
		f.Add([]byte(other))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var got, want event
		if got.readDelta(data) {
			require.NoError(t, json.Unmarshal(data, &want, provider.Lenient))
			if plain := got.Delta.plain; plain != nil {
				got.Delta.Text, got.Delta.plain = string(plain[1:len(plain)-1]), nil
			}
			require.Equal(t, want, got)
		}
	})
}
