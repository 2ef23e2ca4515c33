package house_test

import (
	"os"
	"os/exec"
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
	root := filepath.Join("..", "..")
	out, err := exec.CommandContext(t.Context(), "git", "-C", root, "ls-files", "-z", "*.md").Output()
	if err != nil {
		t.Skip("no repository: ", err)
	}
	for path := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(root, path))
		require.NoError(t, err)
		prose := coded.ReplaceAllString(fenced.ReplaceAllString(string(text), ""), "")
		for _, m := range linked.FindAllStringSubmatch(prose, -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			to, anchor, _ := strings.Cut(m[1], "#")
			at := path
			if to != "" {
				at = filepath.Join(filepath.Dir(path), to)
			}
			text, err := os.ReadFile(filepath.Join(root, at))
			if info, failed := os.Stat(filepath.Join(root, at)); failed != nil {
				t.Errorf("%s links to %s, which is not there", path, m[1])
			} else if anchor != "" && !info.IsDir() && (err != nil || !anchors(string(text))[anchor]) {
				t.Errorf("%s links to %s, which has no such heading", path, m[1])
			}
		}
	}
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
