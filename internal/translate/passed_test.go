package translate_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/all"
	"github.com/modelgate/modelgate/internal/translate"
)

// An answer that no codec reads is what the client gets.
func TestAnswersThatPassAreShownAsTheyAre(t *testing.T) {
	p := all.Providers()["openai"]
	target := provider.Target{Config: translate.Complete(p, &configv1.Provider{}), Model: "m"}
	for _, stream := range []bool{false, true} {
		r, err := translate.Parse(p, translate.Responses, translate.Ask(translate.Responses, nil, "m", stream, false))
		require.NoError(t, err)
		_, answer, err := r.Encode(target)
		require.NoError(t, err)
		x := translate.Exchange{Provider: p, Request: r, Answer: answer}
		body := []byte(`{"id":"resp_1"}`)
		from := translate.Response{Status: 200, Header: http.Header{}, Body: body}
		got := x.Respond(from, body[:3], body[3:])
		require.Equal(t, 200, got.Status)
		require.Equal(t, string(body), string(got.Body))
		require.NoError(t, x.Cuts(from, got))
		got = x.Respond(translate.Response{Status: 429, Header: http.Header{}}, []byte(`{"error":{"message":"slow"}}`))
		require.Equal(t, 429, got.Status)
		require.Contains(t, string(got.Body), "slow")
	}
}
