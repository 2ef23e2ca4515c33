package auditship

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/internal/testenv"
)

func TestAFullAndAReadOnlyDisk(t *testing.T) {
	testenv.OnDisk(t, "tmpfs", "size=1m", fillDisk)
}

func fillDisk(t *testing.T, dir string) {
	s := &sender{write: (*os.File).Write}
	path := filepath.Join(dir, "audit.jsonl")
	items, _, err := itemsOf([]adminapi.AuditEntry{{ID: "1", Diff: long(100 << 10)}, {ID: "2", Diff: long(100 << 10)}})
	require.NoError(t, err)
	b, taken := batch{items: items}, 0
	for ; taken < 100; taken++ {
		if got := s.file(t.Context(), path, b); got.says != "" {
			require.Equal(t, "the file cannot be written: no space left on device", got.says)
			break
		}
	}
	require.Less(t, taken, 6)
	k, broken := linesOf(t, path)
	require.Empty(t, broken, "half a batch is taken back")
	require.Len(t, k.taken(), 2*taken)

	require.NoError(t, os.Truncate(path, 0)) // somebody makes room
	require.Empty(t, s.file(t.Context(), path, b).says)
	require.NoError(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	require.Equal(t, "the file cannot be written: read-only file system", s.file(t.Context(), path, b).says)
}
