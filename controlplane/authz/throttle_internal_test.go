package authz

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestGuessesAreCountedByAddressAndForgottenAfterAMinute(t *testing.T) {
	now := time.Unix(0, 0)
	g := newTokenThrottle(func() time.Time { return now })
	for i := range maxAttempts {
		require.Zero(t, g.wait("2001:db8::1"))
		require.Equal(t, i == maxAttempts-1, g.failed(fmt.Sprintf("2001:db8::%x", i)), "a /64 is one")
	}
	now = now.Add(20 * time.Second)
	require.Equal(t, 40*time.Second, g.wait("2001:db8::ffff"))
	require.Zero(t, g.wait("2001:db8:0:1::1"))
	require.Zero(t, g.wait("10.0.0.1"))
	now = now.Add(40 * time.Second)
	require.Zero(t, g.wait("2001:db8::1"))
	require.False(t, g.failed("2001:db8::1"), "a new window")
}

func TestGuessesTakeBoundedMemory(t *testing.T) {
	now := time.Unix(0, 0)
	g := newTokenThrottle(func() time.Time { return now })
	for i := range 2 * maxAddresses {
		g.failed(fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255))
	}
	require.LessOrEqual(t, len(g.by), maxAddresses+1)
	require.NotZero(t, g.wait("172.16.0.1"), "those that are not counted by themselves count together")
	now = now.Add(attemptWindow)
	g.failed("172.16.0.1")
	require.Len(t, g.by, 1, "what is over is forgotten")
}
