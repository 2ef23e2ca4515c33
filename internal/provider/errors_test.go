package provider_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/provider"
)

func TestWithoutKeys(t *testing.T) {
	for message, want := range map[string]string{
		"Incorrect API key provided: sk-test-0123456789. Look": "Incorrect API key provided: [redacted] Look",
		`the key "sk-test-0123456789" is not known`:            "the key [redacted] is not known",
		"bad header Bearer 0123456789abcdef":                   "bad header Bearer [redacted]",
		"send a Bearer token":                                  "send a Bearer token",
		"sk-short":                                             "sk-short",
		"":                                                     "",
	} {
		require.Equal(t, want, provider.WithoutKeys(message))
		require.Equal(t, want, provider.StatusError(400, nil, message).Message)
	}
}
