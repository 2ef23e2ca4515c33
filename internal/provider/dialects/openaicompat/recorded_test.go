package openaicompat_test

import (
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/chat/chattest"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/openaicompat"
	"github.com/modelgate/modelgate/internal/recordings"
	"github.com/modelgate/modelgate/internal/translate"
)

// TestRecordedStreamsPassByteForByte streams what OpenAI and Azure have sent to clients that got usage if they asked
// for it.
func TestRecordedStreamsPassByteForByte(t *testing.T) {
	d := openaicompat.Dialect{AsReceived: true}
	p := provider.Provider{Chat: openaicompat.New(d), Completion: openaicompat.NewCompletion(d)}
	for _, vendor := range []string{"openai", "azure"} {
		files := recordings.Of(t, vendor)
		for _, at := range recordings.Glob(t, files, "*completions-stream*/response.sse") {
			name := path.Dir(at)
			t.Run(vendor+"/"+name, func(t *testing.T) {
				recorded := recordings.Read(t, files, at)
				endpoint := translate.Chat
				if !strings.Contains(name, "chat") {
					endpoint = translate.Completions
				}
				r, err := translate.Parse(p, endpoint,
					translate.Ask(endpoint, nil, "m", true, strings.Contains(string(recorded), `"usage"`)))
				require.NoError(t, err)
				_, answer, err := r.Encode(provider.Target{Model: "m"})
				require.NoError(t, err)
				for pieces := range translate.Cuttings(recorded, 4<<20) {
					w := chattest.NewStream("m", 1, r.IncludeUsage)
					s := answer.Stream(w.Asked)
					var out []byte
					for _, piece := range pieces {
						require.NoError(t, s.Decode(piece, w))
						out = append(out, w.Take()...)
					}
					require.True(t, w.IsDone())
					// The events of Azure's filter, which are of no kind, are made chunks.
					require.Equal(t, strings.ReplaceAll(string(recorded), `"object":""`, `"object":"chat.completion.chunk"`),
						string(out))
				}
			})
		}
	}
}
