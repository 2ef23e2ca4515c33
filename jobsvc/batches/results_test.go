package batches

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestASlowBatchIsCommittedSeldom: an answer every two seconds would else be a revision of the record each.
func TestASlowBatchIsCommittedSeldom(t *testing.T) {
	const between = 2 * time.Second
	commits := 0
	for at := time.Duration(0); at < 24*time.Hour; {
		wait := gatherFor(at)
		if at > 20*time.Second {
			require.LessOrEqual(t, wait, at/100, "what a kill repeats is a hundredth of what was done")
		}
		at += max(wait, between)
		commits++
	}
	require.Less(t, commits, 5000)
	require.Equal(t, minGather, gatherFor(0), "progress is seen soon")
}
