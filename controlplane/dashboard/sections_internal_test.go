package dashboard

import (
	"os"
	"path"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
)

func TestEachFolderOfSectionsIsListed(t *testing.T) {
	text, err := os.ReadFile("list.go")
	require.NoError(t, err)
	folders, err := os.ReadDir("sections")
	require.NoError(t, err)
	for _, f := range folders {
		require.Contains(t, string(text), f.Name()+".Section(", "run go generate ./controlplane/dashboard")
	}
	require.Len(t, sections(Config{}), len(folders))
}

func TestEachSectionHasItsPlace(t *testing.T) {
	places := map[int]bool{}
	for _, s := range sections(Config{}) {
		require.Positive(t, s.Place)
		require.False(t, places[s.Place], "another section has the place %d", s.Place)
		places[s.Place] = true
	}
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
			require.Contains(t, page.GroupNames(), line.Group, line.Path)
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
