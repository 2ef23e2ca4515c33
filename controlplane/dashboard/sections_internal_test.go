package dashboard

import (
	"go/parser"
	"go/token"
	"os"
	"path"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
)

func TestEachFolderOfSectionsIsListed(t *testing.T) {
	list, err := parser.ParseFile(token.NewFileSet(), "sections.go", nil, parser.ImportsOnly)
	require.NoError(t, err)
	var listed []string
	for _, i := range list.Imports {
		if name, err := strconv.Unquote(i.Path.Value); err == nil && path.Base(path.Dir(name)) == "sections" {
			listed = append(listed, path.Base(name))
		}
	}
	folders, err := os.ReadDir("sections")
	require.NoError(t, err)
	for _, f := range folders {
		require.Contains(t, listed, f.Name(), "a folder whose pages nobody sees: add it to sections.go")
	}
	require.Len(t, sections(Config{}), len(folders))
}

func TestEachPageOfAKindIsThere(t *testing.T) {
	routes := page.NewSite(page.Config{}, sections(Config{})).Routes()
	for _, kind := range configv1.Kinds() {
		if list := kind.Options.GetPage(); list != "" {
			require.True(t, slices.ContainsFunc(routes, func(r page.Route) bool { return r.Pattern == "GET "+list }), list)
		}
	}
}

func TestEachLineOfTheNavigationLeadsToAPageOfItsSection(t *testing.T) {
	for _, s := range sections(Config{}) {
		require.NotEmpty(t, s.Routes)
		require.NotNil(t, s.Templates)
		for _, line := range s.Lines {
			if path.Dir(line.Path) != "/" { // a list of the section of objects
				continue
			}
			require.True(t, slices.ContainsFunc(s.Routes, func(r page.Route) bool {
				return (r.Pattern == "GET "+line.Path || r.Pattern == "GET "+line.Path+"{$}") &&
					(r.Scope == line.Scope || r.Scope == "")
			}), line.Path)
		}
	}
}
