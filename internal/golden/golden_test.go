package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// recorder is a test that notes its failures.
type recorder struct {
	testing.TB
	failures []string
}

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func TestBytes(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "sub", "x.golden")
	setUpdate(t, false)

	r := &recorder{TB: t}
	Bytes(r, path, []byte("one\n"))
	require.Len(t, r.failures, 1, "a missing file is a failure")
	require.Contains(t, r.failures[0], "is missing")
	require.NoFileExists(t, path)

	setUpdate(t, true)
	Bytes(t, path, []byte("one\n"))
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "one\n", string(got))

	setUpdate(t, false)
	Bytes(t, path, []byte("one\n"))
	r = &recorder{TB: t}
	Bytes(r, path, []byte("two\n"))
	require.Len(t, r.failures, 1, "a difference is a failure")
	require.Contains(t, r.failures[0], "differs")
}

func setUpdate(t *testing.T, on bool) {
	was := *update
	*update = on
	t.Cleanup(func() { *update = was })
}
