package telemetry_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/modelgate/modelgate/internal/secret"
	"github.com/modelgate/modelgate/internal/telemetry"
)

func TestLogsAreLinesOfJSON(t *testing.T) {
	var out bytes.Buffer
	log, err := telemetry.NewLogger(&out, telemetry.LogOptions{Level: "info", Format: "json"})
	require.NoError(t, err)
	log.Debug("not this")
	log.Info("this", zap.Int("n", 7))

	var line map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &line))
	require.Equal(t, "this", line["msg"])
	require.Equal(t, "info", line["level"])
	require.EqualValues(t, 7, line["n"])
	require.NotEmpty(t, line["time"])
}

func TestSecretsAreRedactedInEveryFormat(t *testing.T) {
	value := secret.New("TOPSECRET")
	for _, format := range []string{"json", "console"} {
		var out bytes.Buffer
		log, err := telemetry.NewLogger(&out, telemetry.LogOptions{Level: "debug", Format: format})
		require.NoError(t, err)
		log.Info("a secret", zap.Any("any", value), zap.Stringer("stringer", value),
			zap.Reflect("reflect", struct{ V secret.Value }{value}))
		require.NotContains(t, out.String(), "TOPSECRET", format)
		require.Contains(t, out.String(), secret.Redacted, format)
	}
}

func TestNewLoggerRefuses(t *testing.T) {
	for _, o := range []telemetry.LogOptions{{Level: "loud", Format: "json"}, {Level: "info", Format: "xml"},
		{Level: "info"}} {
		_, err := telemetry.NewLogger(&bytes.Buffer{}, o)
		require.Error(t, err, o)
	}
}

func TestRegistryHoldsTheProcess(t *testing.T) {
	families, err := telemetry.NewRegistry().Gather()
	require.NoError(t, err)
	var names []string
	for _, f := range families {
		names = append(names, f.GetName())
	}
	require.Contains(t, names, "go_goroutines")
	require.Contains(t, names, "process_open_fds")
}
