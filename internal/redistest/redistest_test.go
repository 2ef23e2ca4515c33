package redistest_test

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/redistest"
)

func client(t *testing.T, s *redistest.Server) *redis.Client {
	o, err := redis.ParseURL(s.URL)
	require.NoError(t, err)
	c := redis.NewClient(o)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func TestAServerForgetsUnlessItPersists(t *testing.T) {
	for name, args := range map[string][]string{"forgets": nil, "persists": redistest.Persistent()} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t, args...)
			require.NoError(t, client(t, s).Set(t.Context(), "a", "1", 0).Err())
			s.Stop()
			s.Stop()
			require.Error(t, client(t, s).Get(t.Context(), "a").Err())
			s.Restart(t)
			n, err := client(t, s).Exists(t.Context(), "a").Result()
			require.NoError(t, err)
			require.Equal(t, args != nil, n == 1)
		})
	}
}
