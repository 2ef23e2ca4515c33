package responses

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/blobstore/blobtest"
	"github.com/modelgate/modelgate/internal/secret"
	"github.com/modelgate/modelgate/jobsvc/memory"
)

// TestADocumentIsReadAsItWasWritten: whatever its size is. A changed, cut or reordered one is damaged.
func TestADocumentIsReadAsItWasWritten(t *testing.T) {
	store := blobtest.New(t)
	v := &vault{bucket: store.Blobs, now: time.Now}
	sealer, err := secret.NewSealer(make([]byte, 32))
	require.NoError(t, err)
	budget, err := memory.New(64<<20, nil)
	require.NoError(t, err)
	for _, size := range []int{0, 1, frame - 1, frame, frame + 1, 3*frame + 7} {
		plain := bytes.Repeat([]byte("0123456789"), size/10+1)[:size]
		require.NoError(t, v.write(t.Context(), sealer, "a", plain))
		h := budget.Work("a")
		ctx := memory.With(t.Context(), h)
		got, err := v.read(ctx, sealer, "a")
		require.NoError(t, err)
		require.True(t, bytes.Equal(plain, got), size)
		require.GreaterOrEqual(t, budget.Held(), int64(size))
		h.Release()
	}
	good, err := store.Blobs.ReadAll(t.Context(), "a")
	require.NoError(t, err)
	one := 4 + len(sealer.SealBytes("Response", "a", "", make([]byte, frame)))
	bad := [][]byte{nil, good[:one], good[:2*one], slices.Concat(good[one:2*one], good[:one], good[2*one:]),
		good[:len(good)-1], good[one:]}
	for i := 0; i < len(good); i += 1 + len(good)/40 {
		changed := slices.Clone(good)
		changed[i] ^= 1
		bad = append(bad, changed)
	}
	for i, text := range bad {
		require.NoError(t, store.Blobs.WriteAll(t.Context(), "a", text, nil))
		_, err := v.read(t.Context(), sealer, "a")
		require.ErrorIs(t, err, errMissing, i)
	}
	_, err = v.read(t.Context(), sealer, "none")
	require.ErrorIs(t, err, errMissing)
	ended, end := context.WithCancel(t.Context())
	end()
	require.Error(t, v.write(ended, sealer, "b", good))
}
