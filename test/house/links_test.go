package house_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	linked  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile("(?m)^#{1,6} (.+)$")
	fenced  = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	coded   = regexp.MustCompile("`[^`\n]*`")
	between = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// TestLinksOfDocumentsLeadSomewhere: to a file of the repository, and to a heading of it.
func TestLinksOfDocumentsLeadSomewhere(t *testing.T) {
	root := os.DirFS(".") // TestMain is in the root
	documents := 0
	err := fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && (name == "node_modules" || name != "." && name != ".github" && name[0] == '.'):
			return fs.SkipDir
		case entry.IsDir() || filepath.Ext(name) != ".md":
			return nil
		}
		documents++
		return follow(t, root, path)
	})
	require.NoError(t, err)
	require.Greater(t, documents, 50)
}

// follow follows the links of one document.
func follow(t *testing.T, root fs.FS, document string) error {
	text, err := fs.ReadFile(root, document)
	if err != nil {
		return err
	}
	prose := coded.ReplaceAllString(fenced.ReplaceAllString(string(text), ""), "")
	for _, m := range linked.FindAllStringSubmatch(prose, -1) {
		if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
			continue
		}
		to, anchor, _ := strings.Cut(m[1], "#")
		at := document
		if to != "" {
			at = path.Join(path.Dir(document), to)
		}
		info, err := fs.Stat(root, at)
		if err != nil {
			t.Errorf("%s links to %s, which is not there", document, m[1])
			continue
		}
		if anchor == "" || info.IsDir() || path.Ext(at) != ".md" {
			continue
		}
		text, err := fs.ReadFile(root, at)
		if err != nil {
			return err
		}
		if !anchors(string(text))[anchor] {
			t.Errorf("%s links to %s, which has no such heading", document, m[1])
		}
	}
	return nil
}

// anchors are the names of the headings of a Markdown text, as GitHub makes them.
func anchors(text string) map[string]bool {
	all, times := map[string]bool{}, map[string]int{}
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		shown := linked.ReplaceAllString(strings.ReplaceAll(m[1], "[", ""), "")
		name := strings.ReplaceAll(between.ReplaceAllString(strings.ToLower(strings.TrimSpace(shown)), ""), " ", "-")
		again := name
		if n := times[name]; n > 0 {
			again += "-" + strconv.Itoa(n)
		}
		times[name]++
		all[again] = true
	}
	return all
}
