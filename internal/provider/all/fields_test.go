package all

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVendorsNameTheFieldsThatTheyRead(t *testing.T) {
	for name, p := range Providers() {
		files, err := filepath.Glob(filepath.Join("../vendors", name, "*.go"))
		require.NoError(t, err)
		var source strings.Builder
		for _, file := range files {
			if text, err := os.ReadFile(file); err == nil && !strings.HasSuffix(file, "_test.go") {
				source.Write(text)
			}
		}
		for field, read := range map[string]string{"region": ".GetRegion()", "project": ".GetProject()",
			"api_version": ".GetApiVersion()"} {
			require.Equal(t, strings.Contains(source.String(), read), slices.Contains(p.Fields, field),
				"%s and the field %s: the form of a provider asks for Fields", name, field)
		}
	}
}
