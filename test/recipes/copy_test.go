package recipes

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/testenv"
)

// A workCopy is a copy of some folders of the module with an addition. Packages are built where the module is, with an
// overlay of what differs, so that unchanged packages come from the build cache. Generators and tests run in the copy.
type workCopy struct {
	module, dir string
	byHand      map[string]int // lines that were added, by path
	proofs      map[string]bool
}

// A change is a file that the addition has written.
type change struct {
	generated bool
	lines     int // number of lines that are inserted; of a new file, 0
	known     bool
}

func newCopy(t *testing.T, folders ...string) *workCopy {
	t.Helper()
	c := &workCopy{module: testenv.Root(t), dir: t.TempDir(), byHand: map[string]int{}, proofs: map[string]bool{}}
	for _, name := range []string{"go.mod", "go.sum", "buf.yaml", "buf.gen.yaml", "README.md"} {
		text, err := os.ReadFile(filepath.Join(c.module, name))
		require.NoError(t, err)
		c.write(t, name, text)
	}
	for _, folder := range folders {
		require.NoError(t, os.CopyFS(filepath.Join(c.dir, folder), os.DirFS(filepath.Join(c.module, folder))))
	}
	return c
}

// add writes an addition and its proofs.
func (c *workCopy) add(t *testing.T, name string) {
	t.Helper()
	c.each(t, filepath.Join("testdata", name, "addition"), func(path string, text []byte) {
		if existing, ok := strings.CutSuffix(path, ".lines"); ok {
			c.byHand[existing] = c.insert(t, existing, string(text))
			return
		}
		require.NoFileExists(t, filepath.Join(c.module, path), "an addition does not replace a file")
		c.byHand[path] = 0
		c.write(t, path, text)
	})
	c.each(t, filepath.Join("testdata", name, "proof"), func(path string, text []byte) {
		c.proofs[path] = true
		c.write(t, path, text)
	})
}

// each calls f with each file below dir and its path there. There may be no dir.
func (c *workCopy) each(t *testing.T, dir string, f func(path string, text []byte)) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if os.IsNotExist(err) || d != nil && d.IsDir() {
			return nil
		}
		require.NoError(t, err)
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		path, err = filepath.Rel(dir, path)
		require.NoError(t, err)
		f(path, text)
		return nil
	})
	require.NoError(t, err)
}

func (c *workCopy) write(t *testing.T, path string, text []byte) {
	t.Helper()
	path = filepath.Join(c.dir, path)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, text, 0o600))
}

var place = regexp.MustCompile(`(?m)^(after|instead): (.*)\n`)

// insert puts lines into a file of the module, each group after the first line that has its text, or instead of it. It
// returns how many lines it has inserted.
func (c *workCopy) insert(t *testing.T, path, groups string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(c.module, path))
	require.NoError(t, err)
	lines, inserted := strings.SplitAfter(string(text), "\n"), 0
	at := place.FindAllStringSubmatchIndex(groups, -1)
	require.NotEmpty(t, at, path)
	for i, m := range at {
		end := len(groups)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		instead, where, added := groups[m[2]:m[3]] == "instead", groups[m[4]:m[5]], groups[m[1]:end]
		found := false
		for j, line := range lines {
			if found = strings.Contains(line, where); found {
				if lines[j] = line + added; instead {
					lines[j] = added
				}
				break
			}
		}
		require.True(t, found, "%s has no line with %q", path, where)
		inserted += strings.Count(added, "\n")
	}
	c.write(t, path, []byte(strings.Join(lines, "")))
	return inserted
}

// differs returns the paths of the files that the module has not, or not so.
func (c *workCopy) differs(t *testing.T) []string {
	t.Helper()
	var paths []string
	c.each(t, c.dir, func(path string, text []byte) {
		is, err := os.ReadFile(filepath.Join(c.module, path))
		if err != nil || !bytes.Equal(is, text) {
			paths = append(paths, path)
		}
	})
	return paths
}

// written returns what the addition has changed, by path.
func (c *workCopy) written(t *testing.T) map[string]change {
	t.Helper()
	all := map[string]change{}
	for _, path := range c.differs(t) {
		if c.proofs[path] {
			continue
		}
		lines, byHand := c.byHand[path]
		all[path] = change{generated: !byHand, lines: lines}
	}
	return all
}

// goWith runs the go command on the module as it is with the addition.
func (c *workCopy) goWith(t *testing.T, command string, arguments ...string) {
	t.Helper()
	replace := map[string]string{}
	for _, path := range c.differs(t) {
		replace[filepath.Join(c.module, path)] = filepath.Join(c.dir, path)
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	overlay := filepath.Join(t.TempDir(), "overlay.json")
	require.NoError(t, os.WriteFile(overlay, text, 0o600))
	words := append(strings.Fields(command), append([]string{"-overlay", overlay}, arguments...)...)
	c.run(t, c.module, "go", words...)
}

func (c *workCopy) run(t *testing.T, dir, program string, arguments ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, arguments...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s %s\n%s", filepath.Base(program), strings.Join(arguments, " "), out)
}

var generator = regexp.MustCompile(`(?m)^//go:generate go run (\S+) ?(.*)$`)

// generate runs the programs that go generate would run for a package.
func (c *workCopy) generate(t *testing.T, of string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(c.dir, of, "*.go"))
	require.NoError(t, err)
	ran := false
	for _, path := range files {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, m := range generator.FindAllStringSubmatch(string(text), -1) {
			program := filepath.Join(t.TempDir(), "generator")
			c.goWith(t, "build", "-ldflags=-s -w", "-o", program, filepath.Join(c.module, of, m[1]))
			c.run(t, filepath.Join(c.dir, of), program, strings.Fields(m[2])...)
			ran = true
		}
	}
	require.True(t, ran, "%s generates nothing", of)
}

// test runs tests of a package.
func (c *workCopy) test(t *testing.T, of, pattern string, flags ...string) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "package.test")
	c.goWith(t, "test -c -vet=off", "-ldflags=-s -w", "-o", binary, "./"+of)
	require.FileExists(t, binary, "%s has no tests", of)
	c.run(t, filepath.Join(c.dir, of), binary, append(flags, "-test.run", pattern, "-test.timeout", "5m")...)
}
