package serve

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
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
			address, err := redisURL(c.flags.Store, c.flags.PasswordFile, c.flags.Password)
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
			_, err := c.flags.store(zap.NewNop())
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), "topsecret")
		})
	}
	limits, err := limitStoreFlags{Store: "memory", Share: 1, Part: 1}.store(zap.NewNop())
	require.NoError(t, err)
	require.Nil(t, limits.Redis)
}
