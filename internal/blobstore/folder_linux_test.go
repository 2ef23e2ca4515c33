package blobstore

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"gocloud.dev/blob/driver"
	"gocloud.dev/blob/fileblob"
)

// What the disk did not take must not be acknowledged: it is there in memory only, and gone after a power cut.
func TestABlobThatCannotBeSyncedIsNoBlob(t *testing.T) {
	dir := t.TempDir()
	inner, err := fileblob.OpenBucket(dir, &fileblob.Options{NoTempDir: true, Metadata: fileblob.MetadataDontWrite})
	require.NoError(t, err)
	f := &folder{dir: dir, inner: inner}
	w, err := f.NewTypedWriter(t.Context(), "files/a", "", &driver.WriterOptions{})
	require.NoError(t, err)
	_, err = w.Write([]byte("x"))
	require.NoError(t, err)
	read, write, err := os.Pipe() // which cannot be synced
	require.NoError(t, err)
	defer read.Close()
	defer write.Close()
	require.NoError(t, syscall.Dup3(int(write.Fd()), int(w.(*folderWriter).file.Fd()), 0))
	require.ErrorIs(t, w.Close(), syscall.EINVAL)
	_, err = f.Attributes(t.Context(), "files/a")
	require.True(t, IsMissing(err))
	left, err := os.ReadDir(filepath.Join(dir, "files"))
	require.NoError(t, err)
	require.Empty(t, left)
}
