package recordings_test

import (
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/internal/recordings"
)

func TestTheSourceOfEveryRecordingIsNamed(t *testing.T) {
	index, err := os.ReadFile("INDEX.md")
	require.NoError(t, err)
	exchanges, answers := 0, 0
	for _, vendor := range recordings.Vendors(t) {
		_, section, found := strings.Cut(string(index), "\n## "+vendor)
		require.True(t, found, vendor)
		section, _, _ = strings.Cut(section, "\n## ")
		files := recordings.Of(t, vendor)
		require.NoError(t, fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
			require.NoError(t, err)
			switch {
			case d.IsDir():
			case path.Base(name) == "meta.json":
				meta := recordings.Read(t, files, name)
				require.Contains(t, section, "\n| "+path.Dir(name)+" |")
				require.Contains(t, section, strings.TrimPrefix(gjson.GetBytes(meta, "source.repo").Str, "github.com/")+" : "+
					gjson.GetBytes(meta, "source.path").Str)
				exchanges++
			case strings.Contains(name, "response-only/") || vendor == "eventstream-vectors":
				require.Contains(t, section, "`"+name+"`")
				answers++
			}
			return nil
		}))
	}
	t.Logf("%d exchanges, %d answers or frames", exchanges, answers)
	require.Positive(t, exchanges)
	require.Positive(t, answers)
}
