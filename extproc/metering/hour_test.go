package metering_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/extproc/metering"
)

// A part of a request is cached for hours if a vendor's member says so, wherever it stands and however it is written.
func TestRequestsThatAskForACacheForHours(t *testing.T) {
	for body, want := range map[string]bool{
		`{"cache_control":{"type":"ephemeral","ttl":"1h"}}`:                         true,
		`{"messages":[{"content":[{"cachePoint":{"type":"default","ttl":"1h"}}]}]}`: true,
		`{"prompt_cache_options":{"ttl":"12h"}}`:                                    true,
		`{"prompt_cache_options":{"ttl": "1\u0032\u0068"}}`:                         true,
		`{"prompt_cache_options":{"ttl":"30m"},"input":"it took 12h"}`:              false,
		`{"cache_control":{"ttl":"5m"},"metadata":{"a":"1h"}}`:                      false,
		`{"input":"ttl","user":"h","x":"12h"}`:                                      false,
		`{"ttl":"h"}`:                                                               false, `{"ttl":"aah","x":"1h"}`: false,
	} {
		require.Equal(t, want, metering.AsksHourCache([]byte(body)), body)
	}
}
