package provider_test

import (
	"net/http"
	"testing"
	"time"

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

func TestRetryAfterIsNeverNegative(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"2": 2 * time.Second, "0.5": 500 * time.Millisecond, "-1": 0, "soon": 0, "NaN": 0,
		"1e300": 100 * 365 * 24 * time.Hour, "+Inf": 100 * 365 * 24 * time.Hour, "Mon, 02 Jan 2006 15:04:05 GMT": 0,
	} {
		require.Equal(t, want, provider.RetryAfter(http.Header{"Retry-After": {value}}), value)
	}
	require.Equal(t, 1780*time.Millisecond,
		provider.RetryAfter(http.Header{"Retry-After-Ms": {"1780"}, "Retry-After": {"9"}}))
}
