package id_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/id"
)

func TestIdentifiersSortByTimeAndDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		last := ""
		for range 100 {
			s := id.New("key")
			require.Regexp(t, `^key_[0-9A-HJKMNP-TV-Z]{26}$`, s)
			require.Greater(t, s, last)
			require.NotEqual(t, id.New("key"), s)
			last = s
			time.Sleep(time.Millisecond)
		}
	})
}

func TestValid(t *testing.T) {
	require.True(t, id.Valid("key", id.New("key")))
	for _, s := range []string{"", "key_", "key_1", id.New("req"), "key_" + "UUUUUUUUUUUUUUUUUUUUUUUUUU", id.New("key") +
		"0"} {
		require.False(t, id.Valid("key", s), s)
	}
}
