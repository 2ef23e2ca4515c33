package serve

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/modelgate/modelgate/cmd/modelgate/proc"
)

func TestThePasswordOfRedisMayBeElsewhere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte("p@ss/word\n"), 0o600))
	for name, c := range map[string]struct {
		flags limitStoreFlags
		want  string
	}{
		"in the URL": {limitStoreFlags{Store: "redis://u:x@h:1/2"}, "redis://u:x@h:1/2"},
		"in a file": {limitStoreFlags{Store: "rediss://u@h:1/2", PasswordFile: file},
			"rediss://u:p%40ss%2Fword@h:1/2"},
		"in a variable": {limitStoreFlags{Store: "redis://h:1", Password: "secret"}, "redis://:secret@h:1"},
		"of a Unix socket": {limitStoreFlags{Store: "unix:///run/redis.sock?db=1", Password: "secret"},
			"unix://:secret@/run/redis.sock?db=1"},
	} {
		t.Run(name, func(t *testing.T) {
			address, err := c.flags.address()
			require.NoError(t, err)
			require.Equal(t, c.want, address)
		})
	}
}

func TestLimitStoresThatCannotBe(t *testing.T) {
	for name, c := range map[string]struct {
		flags limitStoreFlags
		says  string
	}{
		"no share":     {limitStoreFlags{Store: "memory", Part: 1}, "--limits-share"},
		"all and more": {limitStoreFlags{Store: "memory", Share: 1, Part: 2}, "--limits-part"},
		"no store":     {limitStoreFlags{Store: "elsewhere", Share: 1, Part: 1}, "--limits:"},
		"no file": {limitStoreFlags{Store: "redis://h", Share: 1, Part: 1, PasswordFile: "/nowhere/at/all"},
			"--limits: reading the password"},
		"a bad URL": {limitStoreFlags{Store: "redis://u:topsecret@h:port", Share: 1, Part: 1, Password: "p"},
			"--limits: must be memory or a URL"},
	} {
		t.Run(name, func(t *testing.T) {
			p := proc.NewParts(zap.NewNop())
			_, err := c.flags.open(p, &troubles{}, zap.NewNop())
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), "topsecret")
			require.NoError(t, p.Stop(t.Context()))
		})
	}
	p := proc.NewParts(zap.NewNop())
	limits, err := limitStoreFlags{Store: "memory", Share: 1, Part: 1}.open(p, &troubles{}, zap.NewNop())
	require.NoError(t, err)
	require.NotNil(t, limits)
}

func TestWhatIsSaidOfStoresThatAreAway(t *testing.T) {
	p := proc.NewParts(zap.NewNop())
	shared := troubles{}
	_, err := limitStoreFlags{Store: "redis://127.0.0.1:1", Share: 1, Part: 1, Failure: "closed",
		Timeout: time.Second}.open(p, &shared, zap.NewNop())
	require.NoError(t, err)
	cache, err := answerFlags{Store: "redis://127.0.0.1:1"}.open(p, prometheus.NewRegistry(), &shared, zap.NewNop())
	require.NoError(t, err)
	require.NotNil(t, cache)
	require.Len(t, shared, 2)
	require.Eventually(t, func() bool { return shared.says() != "" }, 10*time.Second, time.Millisecond)
	require.Equal(t, "The Redis of limits does not answer: requests that have a limit are refused.", shared.says())
	require.ErrorContains(t, p.Stop(t.Context()), "tell the store of limits that this process ends")
}
