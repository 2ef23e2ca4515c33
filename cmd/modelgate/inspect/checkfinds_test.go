package inspect

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWhatCheckFinds(t *testing.T) {
	const chunk = "data: {\"choices\":[]}\n\n"
	for name, tc := range map[string]struct {
		status int
		answer string
		says   string // empty: nothing is wrong
	}{
		"a whole stream": {200, chunk + "data: [DONE]\n\n", ""},
		"no end mark":    {200, chunk, "after 1 chunks without [DONE]"},
		"an error":       {500, "broken", "the gateway answered 500: broken"},
		"not there yet":  {503, "later", "the gateway is not reachable yet"},
		"an unknown key": {401, "who", "the gateway is not reachable yet"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tc.status)
				_, _ = io.WriteString(w, tc.answer)
			}))
			t.Cleanup(server.Close)
			told, err := checkedGateway{base: server.URL, key: "k", model: "m", http: checkClient(nil)}.stream(t.Context())
			if tc.says == "" {
				require.NoError(t, err)
				require.Equal(t, "1 chunks", told)
				return
			}
			require.ErrorContains(t, err, tc.says)
		})
	}
}

func TestCheckAsksAgainUntilTheGatewayKnowsTheKey(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked == 1 {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, `{"choices":[{}],"usage":{"total_tokens":3}}`)
	}))
	t.Cleanup(server.Close)
	g := checkedGateway{base: server.URL, key: "k", model: "m", http: checkClient(nil)}
	start := time.Now()
	told, err := g.patiently(t.Context(), g.unary)
	require.NoError(t, err)
	require.Contains(t, told, "3 tokens")
	require.Equal(t, 2, asked)
	require.GreaterOrEqual(t, time.Since(start), checkPause/2)
}
