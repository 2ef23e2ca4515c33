// Package recipes follows each recipe of docs/how-to-add.md with a throw-away addition, and proves that it does what
// the recipe promises.
//
// testdata/NAME/addition has the files that the addition writes, and for a file that exists NAME.lines with the lines
// that it inserts or replaces. testdata/NAME/proof has tests of the promise. A new test must not write into the
// module: it runs in a copy of what it reads.
package recipes

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/testenv"
)

// A recipe is a section of the document, and how it is followed.
type recipe struct {
	title string
	long  bool // what it builds takes long
	apart bool // it writes files that another recipe writes too
	// reads are the folders that the generators and the tests read.
	reads []string
	// protobuf means that buf generates code, and generates are packages for which go generate is run.
	protobuf  bool
	generates []string
	// tests are regular expressions of the tests to run, by package, and goldens those that write golden files.
	tests, goldens map[string]string
	// most is the largest number of files besides tests that the recipe may write by hand. A folder counts as one.
	most int
}

var recipes = map[string]recipe{
	"vendor": {
		title: "A vendor", most: 2,
		reads:     []string{"internal/provider", "internal/catalog", "docs"},
		generates: []string{"internal/provider/all"},
		tests: map[string]string{
			"internal/provider/vendors/acme": ".",
			"internal/provider/all":          "Acme|IsComplete|IsTested|TheForms",
		},
	},
	"dialect": {
		title: "A dialect of clients", long: true, most: 2,
		reads:   []string{"internal/inbound", "controlplane/xds", "extproc/exchange"},
		goldens: map[string]string{"controlplane/xds": "LocalReplies"},
		tests: map[string]string{
			"internal/inbound/dialects": ".",
			"extproc/exchange":          "ChargedByTheTable",
		},
	},
	"kind": {
		title: "A kind of object", long: true, most: 4,
		reads: []string{"api", "docs", "tools", "test/hostile", "controlplane/config",
			"controlplane/api", "charts/modelgate/definitions"},
		protobuf:  true,
		generates: []string{"api/config/v1", "api/config/crd"},
		tests: map[string]string{
			"api/config/v1":       ".",
			"api/config/crd":      ".",
			"controlplane/config": "Kind|Secrecy",
			"controlplane/api":    "InStepWithTheServer|TakesItsScope",
		},
	},
	"command": {
		title: "A command", long: true, most: 3,
		reads:     []string{"cmd/modelgate", "docs"},
		generates: []string{"cmd/modelgate"},
		tests:     map[string]string{"cmd/modelgate": "Acme|EveryCommand|Manual"},
	},
	"filter": {
		title: "A filter", long: true, most: 2,
		reads: []string{"extproc"},
		tests: map[string]string{"extproc/chain": ".", "extproc/exchange": "Acme"},
	},
	"page": {
		title: "A page of the dashboard", long: true, most: 1,
		reads:     []string{"controlplane/dashboard"},
		generates: []string{"controlplane/dashboard"},
		tests: map[string]string{
			"controlplane/dashboard/sections/acme": ".",
			"controlplane/dashboard":               "TestEach|Acme",
		},
	},
	"error": {
		title: "An error", most: 2,
		reads:     []string{"api/openai", "docs"},
		generates: []string{"api/openai"},
		tests:     map[string]string{"api/openai": "Catalogue|ACode"},
	},
	"endpoint": {
		title: "An endpoint of the admin API", long: true, most: 3,
		reads:     []string{"api", "tools", "controlplane/api"},
		generates: []string{"api/admin"},
		tests:     map[string]string{"controlplane/api": "Acme|InStepWithTheServer|TakesItsScope"},
	},
	"usage": {
		title: "A field of usage", long: true, apart: true, most: 5,
		reads: []string{"api", "docs", "tools", "internal/usage", "internal/reported", "controlplane/queries",
			"controlplane/ledger", "charts/modelgate/definitions"},
		protobuf:  true,
		generates: []string{"api/config/v1", "api/config/crd", "api/admin"},
		tests: map[string]string{
			"api/openai":           "Usage",
			"internal/reported":    "Acme|AllocatesNothing",
			"internal/usage":       "Acme|Fields|Bound|Cost",
			"controlplane/queries": "EachKindOfUsage",
			"controlplane/ledger":  "EachKindOfUsage",
		},
	},
}

// TestRecipes follows each recipe by hand, alone. What is generated, built and tested after that takes long: recipes
// that touch different files share it.
func TestRecipes(t *testing.T) {
	text, err := os.ReadFile("../../docs/how-to-add.md")
	require.NoError(t, err)
	documented := map[string][]file{}
	together := []string{}
	for _, name := range slices.Sorted(maps.Keys(recipes)) {
		r := recipes[name]
		documented[name] = filesOf(t, string(text), r.title)
		if !r.long || os.Getenv(testenv.All) != "" {
			if !r.apart {
				together = append(together, name)
			}
		}
		t.Run(name, func(t *testing.T) {
			byHand := slices.DeleteFunc(slices.Clone(documented[name]), func(f file) bool { return f.generated })
			r.requireBar(t, byHand)
			c := newCopy(t)
			c.add(t, name)
			requireFiles(t, byHand, c.written(t))
			if r.long {
				testenv.Long(t)
			}
			if r.apart {
				follow(t, documented, name)
			}
		})
	}
	t.Run("together", func(t *testing.T) { follow(t, documented, together...) })
}

// follow follows recipes in one copy, and fails if one of them does not keep its promise, or if they write other files
// than the document lists.
func follow(t *testing.T, documented map[string][]file, names ...string) {
	t.Helper()
	var all recipe
	var files []file
	all.tests, all.goldens = map[string]string{}, map[string]string{}
	for _, name := range names {
		r := recipes[name]
		for _, f := range documented[name] {
			require.False(t, slices.ContainsFunc(files, func(of file) bool { return of.path == f.path }),
				"%s: another recipe writes %s too; follow it apart", name, f.path)
		}
		files = append(files, documented[name]...)
		all.reads = append(all.reads, r.reads...)
		all.generates = append(all.generates, r.generates...)
		all.protobuf = all.protobuf || r.protobuf
		for of, pattern := range r.tests {
			all.tests[of] = strings.Trim(all.tests[of]+"|"+pattern, "|")
		}
		maps.Copy(all.goldens, r.goldens)
	}
	c := newCopy(t, apart(all.reads)...)
	for _, name := range names {
		c.add(t, name)
	}
	if all.protobuf {
		c.run(t, c.dir, "go", strings.Fields("tool -modfile=tools/go.mod buf generate --path api")...)
	}
	manual := func(of string) bool { return of == "cmd/modelgate" } // it is made by the whole program
	for _, of := range slices.DeleteFunc(slices.Clone(all.generates), manual) {
		c.generate(t, of)
	}
	if slices.ContainsFunc(all.generates, manual) {
		c.generate(t, "cmd/modelgate")
	}
	for of, pattern := range all.goldens {
		c.test(t, of, pattern, "-update")
	}
	for of, pattern := range all.tests {
		c.test(t, of, pattern)
	}
	requireFiles(t, files, c.written(t))
}

// apart returns the folders that are not within another of them.
func apart(folders []string) []string {
	slices.Sort(folders)
	var all []string
	for _, of := range folders {
		if n := len(all); n == 0 || of != all[n-1] && !strings.HasPrefix(of, all[n-1]+"/") {
			all = append(all, of)
		}
	}
	return all
}

// requireBar fails if a recipe writes more files by hand than it may.
func (r *recipe) requireBar(t *testing.T, byHand []file) {
	t.Helper()
	n := 0
	for _, f := range byHand {
		if !strings.HasSuffix(f.path, "_test.go") {
			n++
		}
	}
	require.LessOrEqual(t, n, r.most, "files that the recipe writes by hand")
}

// A file is a line of a recipe's list of files.
type file struct {
	path      string // ends with a slash for a folder
	line      bool   // a line is added to it, besides an import
	generated bool
}

// has reports whether a path is the file, or in the folder.
func (f file) has(path string) bool {
	return path == f.path || strings.HasSuffix(f.path, "/") && strings.HasPrefix(path, f.path)
}

// filesOf returns the list of files of a section, which is its block of text.
func filesOf(t *testing.T, document, title string) []file {
	t.Helper()
	_, of, found := strings.Cut(document, "\n## "+title+"\n")
	require.True(t, found, "the document has no section %s", title)
	of, _, _ = strings.Cut(of, "\n## ")
	_, block, found := strings.Cut(of, "\n```text\n")
	require.True(t, found, "the section %s has no list of files", title)
	block, _, _ = strings.Cut(block, "```")
	var files []file
	for line := range strings.Lines(block) {
		path, what, found := strings.Cut(strings.TrimSpace(line), " ")
		require.True(t, found, line)
		path = strings.NewReplacer("NAME", "acme").Replace(path)
		files = append(files, file{path: path, line: strings.Contains(what, "a line"),
			generated: strings.Contains(what, "written by")})
	}
	return files
}

// requireFiles fails if what was written is not what the document lists.
func requireFiles(t *testing.T, documented []file, written map[string]change) {
	t.Helper()
	for _, f := range documented {
		found := false
		for path, c := range written {
			if !f.has(path) {
				continue
			}
			found, written[path] = true, change{known: true}
			if c.known {
				continue
			}
			require.Equal(t, f.generated, c.generated, "%s: whether it is generated", path)
			require.True(t, !f.line || c.lines <= 2, "%s: more than a line and its import are added", path)
		}
		require.True(t, found, "the document lists %s, which nothing writes", f.path)
	}
	for path, c := range written {
		require.True(t, c.known, "the document does not list %s", filepath.ToSlash(path))
	}
}
