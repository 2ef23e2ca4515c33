package openai_test

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/openai"
)

func TestDocumentOfErrorsIsFresh(t *testing.T) {
	path := filepath.Join(t.TempDir(), "errors.md")
	out, err := exec.Command("go", "run", "gendocs.go", "-o", path).CombinedOutput()
	require.NoError(t, err, "%s", out)
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	got, err := os.ReadFile("../../docs/errors.md")
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "run go generate ./api/openai")
}

func TestCatalogueSaysAllOfACode(t *testing.T) {
	for _, section := range openai.Catalogue() {
		require.True(t, slices.IsSortedFunc(section.Entries,
			func(a, b openai.Entry) int { return cmp.Compare(a.Code, b.Code) }), section.Title)
		for _, e := range section.Entries {
			require.Regexp(t, `^[^|\n]+[.]$`, e.Means, string(e.Code))
			require.Regexp(t, `^[^|\n]+[.]$`, e.Do, string(e.Code))
		}
	}
}
