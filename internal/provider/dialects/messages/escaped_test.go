package messages

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/provider"
)

// TestANameWithEscapesIsTheSameName: a client does not name another model, or a member that is left out, by spelling.
func TestANameWithEscapesIsTheSameName(t *testing.T) {
	out := EncodeNative("anthropic", provider.NativeRequest{
		Body: []byte(`{"\u006dodel":"other","anthropic\u005fbeta":["x"],"sp\u0065ed":"fast","max_tokens":5}`)}, nil, "mine", "", "speed")
	require.JSONEq(t, `{"model":"mine","max_tokens":5}`, string(out.Body))
}
