package blobstore_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"gocloud.dev/blob"

	"github.com/modelgate/modelgate/internal/blobstore"
	"github.com/modelgate/modelgate/internal/testenv"
)

func TestAFullDisk(t *testing.T) {
	testenv.OnDisk(t, "tmpfs", "size=1m", fillDisk)
}

func fillDisk(t *testing.T, dir string) {
	b, err := blobstore.Open(t.Context(), "file://"+filepath.ToSlash(dir))
	require.NoError(t, err)
	require.NoError(t, b.WriteAll(t.Context(), "files/small", make([]byte, 100<<10), nil))
	for _, wellBehaved := range []bool{true, false} {
		ctx, giveUp := context.WithCancel(t.Context())
		w, err := b.NewWriter(ctx, "files/large", &blob.WriterOptions{ContentType: "text/plain"})
		require.NoError(t, err)
		for err == nil {
			_, err = w.Write(make([]byte, 64<<10))
		}
		require.True(t, blobstore.IsFull(err), "%v", err)
		require.False(t, blobstore.IsMissing(err))
		// etcd, which may be on the same disk, ends where it cannot write.
		require.NoError(t, os.WriteFile(filepath.Join(dir, "etcd"), make([]byte, 40<<10), 0o600))
		require.NoError(t, os.Remove(filepath.Join(dir, "etcd")))
		if wellBehaved {
			giveUp()
		}
		require.Error(t, w.Close(), "half a blob is none")
		giveUp()
		require.Equal(t, []string{"files/small"}, onDisk(t, dir))
	}
	require.NoError(t, b.WriteAll(t.Context(), "files/other", make([]byte, 100<<10), nil), "there is room again")
}
