package contentcheck

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAPanicIsNoVerdict: a checker whose answer makes the gateway panic is one that does not answer.
func TestAPanicIsNoVerdict(t *testing.T) {
	require.ErrorIs(t, safely(func() error { panic("a stranger's answer") })(), errReading)
}
