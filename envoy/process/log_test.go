package process

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

func TestLinesAreParsed(t *testing.T) {
	cases := map[string]struct {
		line string
		want entry
	}{
		"a warning": {
			"envoy|warning|upstream|no healthy host",
			entry{zapcore.WarnLevel, "upstream", "no healthy host", false},
		},
		"what ends Envoy": {
			"envoy|critical|main|error initializing config",
			entry{zapcore.ErrorLevel, "main", "error initializing config", true},
		},
		"a message with the separator and an escaped line end": {
			`envoy|error|config|a|b\nc`,
			entry{zapcore.ErrorLevel, "config", `a|b\nc`, false},
		},
		"what Envoy does is detail": {
			"envoy|info|main|starting main dispatch loop",
			entry{zapcore.DebugLevel, "main", "starting main dispatch loop", false},
		},
		"a line of the C++ runtime": {
			"terminate called after throwing",
			entry{zapcore.WarnLevel, "stderr", "terminate called after throwing", false},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, parseLog(c.line)) })
	}
}

func TestLinesAreLoggedHoweverTheyAreCut(t *testing.T) {
	const text = "envoy|info|main|one\n\nenvoy|critical|main|two\nenvoy|error|x|no end"
	for size := 1; size <= len(text); size++ {
		core, logs := observer.New(zap.DebugLevel)
		w := &logWriter{log: zap.New(core)}
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			written, err := w.Write([]byte(rest[:n]))
			require.NoError(t, err)
			require.Equal(t, n, written)
			rest = rest[n:]
		}
		require.Equal(t, "two", w.Flush())
		var got []string
		for _, e := range logs.All() {
			got = append(got, e.Message)
		}
		require.Equal(t, []string{"one", "two", "no end"}, got)
	}
}

func TestALongLineIsCut(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	w := &logWriter{log: zap.New(core)}
	_, err := w.Write([]byte("envoy|info|main|" + strings.Repeat("x", 1<<20) + "\nenvoy|info|main|next\n"))
	require.NoError(t, err)
	require.Len(t, logs.All(), 2)
	require.LessOrEqual(t, len(logs.All()[0].Message), maxLogLine)
	require.Equal(t, "next", logs.All()[1].Message)
}

func TestSecretsAreNotLogged(t *testing.T) {
	lines := map[string]string{
		"a private key":             `envoy|warning|config|inline_string: "-----BEGIN EC PRIVATE KEY-----\nTOPSECRET\n-----END EC PRIVATE KEY-----"`,
		"a private key that is cut": `envoy|warning|config|inline_string: "-----BEGIN PRIVATE KEY-----\nTOPSECRET`,
		"a bearer":                  "envoy|warning|http|'authorization', 'Bearer TOPSECRET'",
		"a key":                     "envoy|warning|http|sk-mg-TOPSECRET",
		"a line of no format":       "-----BEGIN RSA PRIVATE KEY-----TOPSECRET",
	}
	for name, line := range lines {
		t.Run(name, func(t *testing.T) {
			got := parseLog(line).text
			require.NotContains(t, got, "TOPSECRET")
			require.Contains(t, got, "[redacted]")
		})
	}
}
