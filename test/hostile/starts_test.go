package hostile

import (
	"bytes"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/test/harness"
)

// What can have happened to a file or a folder of the data folder. A folder in its place is what even root cannot
// read.
const (
	missing   = "missing"
	truncated = "truncated"
	garbage   = "garbage"
	folder    = "a folder"
	foreign   = "foreign"
)

// A damaged file of the data folder.
type damaged struct{ file, how string }

func each(file string, how ...string) (all []damaged) {
	for _, h := range how {
		all = append(all, damaged{file, h})
	}
	return all
}

// refusals are the damages with which a start ends, by what it says of how they are mended. The insides of etcd are
// tried in cmd/modelgate.
func refusals() map[string][][]damaged {
	const copied, fresh = "restore it from a copy", "move it away"
	return map[string][][]damaged{
		"Restore a copy":                {each("etcd", garbage)},
		"restore the file that belongs": {each("pepper", foreign)},
		"move both away": {each("ca.crt", truncated, garbage, folder, foreign),
			each("ca.key", missing, truncated, garbage, folder, foreign)},
		copied: {each("pepper", missing, truncated, garbage, folder), each("ledger.db", truncated, garbage, folder)},
		fresh: {
			each("admin-token", garbage, folder), each("server.crt", folder), each("server.key", folder), each("key", folder),
			each("url", folder),
			each("admin", folder), each("lock", folder), each("run", garbage), each("spool", garbage),
			each("spool/lock", folder),
			each("spool/position", folder), each("spool/0000000000000001.spool", folder),
		},
	}
}

// A survival is a start that succeeds with several damages, which have nothing to do with one another.
type survival struct {
	damages     []damaged
	says        []string // of what it goes on without, or what its owner has to know
	chat, files int      // statuses
}

func survivals() map[string]survival {
	const noKey, noJobs = "the key in this file is not valid", "the job service is unavailable until you fix this"
	segment := "spool/0000000000000001.spool"
	return map[string]survival{
		"heals what is missing": {chat: 200, files: 200, damages: []damaged{
			{"server.crt", missing}, {"url", missing}, {"lock", missing}, {"run", missing}, {"ledger.db", missing},
			{"admin-token", missing}, {"spool/position", missing},
		}},
		"heals more that is missing": {chat: 200, files: 200, damages: []damaged{
			{"server.key", missing}, {"ca.crt", missing}, {"key", missing}, {"spool", missing}, {"blobs", missing},
		}},
		"heals what is damaged": {chat: 200, files: 200, damages: []damaged{
			{"server.crt", garbage}, {"url", garbage}, {"admin", garbage}, {"lock", garbage}, {"spool/position", garbage},
			{"ledger.db", foreign},
		}},
		"heals what is foreign": {chat: 200, files: 200, damages: []damaged{{"server.key", foreign},
			{"admin-token", foreign}, {"spool", foreign}}},
		"blobs and a record that are garbage": {chat: 200, files: 503, says: []string{noJobs, "kept aside"},
			damages: []damaged{{"blobs", garbage}, {segment, garbage}}},
		"a record that is cut, foreign blobs": {chat: 200, files: 503, says: []string{noJobs, "unfinished record"},
			damages: []damaged{{"blobs", foreign}, {segment, truncated}}},
		"the owner of blobs cut": {chat: 200, files: 503, says: []string{noJobs}, damages: each("blobs/owner", truncated)},
		"a foreign key":          {chat: 401, files: 401, says: []string{noKey}, damages: each("key", foreign)},
		"a key that is cut":      {chat: 401, files: 401, says: []string{noKey}, damages: each("key", truncated)},
		"no etcd beside a key":   {chat: 401, files: 401, says: []string{noKey}, damages: each("etcd", missing)},
	}
}

// Every file of the data folder, damaged in every way: the start heals it, or ends within seconds and names the file
// and what helps, or comes up without the part that needs it, which never is chat.
func TestPoint6StartsOnADamagedDataFolder(t *testing.T) {
	t.Parallel()
	whole, other := madeFolder(t), madeFolder(t)
	began, starts := time.Now(), 0
	places := make(chan struct{}, 3) // as many at once
	try := func(name string, damages []damaged, check func(t *testing.T, p *harness.Process, dir string)) {
		starts++
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			places <- struct{}{}
			defer func() { <-places }()
			dir := shortFolder(t)
			copyFolder(t, whole, dir)
			for _, d := range damages {
				damage(t, filepath.Join(dir, d.file), filepath.Join(other, d.file), d.how)
			}
			p := harness.Launch(t, nil, "run", "--data", dir, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
				"--concurrency", "1", "--envoy", testenv.Envoy(t))
			check(t, p, dir)
			p.Kill()
		})
	}
	for remedy, files := range refusals() {
		for _, d := range slices.Concat(files...) {
			try(d.file+" "+d.how, []damaged{d}, func(t *testing.T, p *harness.Process,
				dir string) {
				refuses(t, p, filepath.Join(dir, d.file), remedy)
			})
		}
	}
	for name, s := range survivals() {
		try(name, s.damages, s.check)
	}
	t.Cleanup(func() { figure(t, "starts on damaged folders", "%d in %.1f s", starts, time.Since(began).Seconds()) })
}

// refuses expects that a start ends, and that its last words name the file and what helps.
func refuses(t *testing.T, p *harness.Process, file, remedy string) {
	select {
	case <-p.Done:
	case <-time.After(20 * time.Second): // with room for a busy machine
		t.Fatal("it is not refused")
	}
	require.Error(t, p.Err)
	last := p.WaitFor(t, "modelgate: ")
	require.Contains(t, last, file)
	require.Contains(t, last, remedy)
}

func (s survival) check(t *testing.T, p *harness.Process, dir string) {
	p.WaitFor(t, "ready")
	g := &harness.Gateway{Process: p, Dir: dir}
	g.URL, g.Key, g.Client = g.File(t, "url"), g.File(t, "key"), harness.ClientFor(t, filepath.Join(dir, "ca.crt"))
	c := g.AsCases()
	for range 3 {
		a := c.Do(t, http.MethodPost, "/v1/chat/completions",
			`{"model":"echo/echo","messages":[{"role":"user","content":"hi"}]}`)
		require.Equal(t, s.chat, a.Status, "%s", a.Body)
	}
	a := c.Do(t, http.MethodGet, "/v1/files", "")
	require.Equal(t, s.files, a.Status, "%s", a.Body)
	for _, says := range s.says {
		p.WaitFor(t, says)
	}
}

// madeFolder is a data folder that a gateway has made and left.
func madeFolder(t *testing.T) string {
	t.Helper()
	dir := shortFolder(t)
	g := harness.Run(t, dir, "--concurrency", "1")
	a := g.AsCases().Do(t, http.MethodPost, "/v1/chat/completions",
		`{"model":"echo/echo","messages":[{"role":"user","content":"hi"}]}`)
	require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
	g.Stop(t)
	return dir
}

// shortFolder is a folder whose path is short enough for sockets.
func shortFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "mg")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// copyFolder copies files without the zeros at their ends, which are most of what etcd sets aside, but with their
// sizes.
func copyFolder(t *testing.T, from, to string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		at := filepath.Join(to, strings.TrimPrefix(path, from))
		info, err := d.Info()
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.MkdirAll(at, 0o700)
		case !d.Type().IsRegular() || strings.HasSuffix(path, ".tmp"): // sockets, and what etcd sets aside for later
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(at, bytes.TrimRight(text, "\x00"), info.Mode().Perm()); err != nil {
			return err
		}
		return os.Truncate(at, info.Size())
	}))
}

// damage does something to a file, or to all files of a folder.
func damage(t *testing.T, path, other, how string) {
	t.Helper()
	if how == truncated {
		require.NoError(t, filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			return os.Truncate(path, info.Size()/2)
		}))
		return
	}
	require.NoError(t, os.RemoveAll(path))
	switch how {
	case garbage:
		require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte{1, 'x', 0xff, ' '}, 2000), 0o600))
	case folder:
		require.NoError(t, os.MkdirAll(filepath.Join(path, "inside"), 0o700))
	case foreign:
		if info, err := os.Stat(other); err == nil && info.IsDir() {
			copyFolder(t, other, path)
			return
		}
		text, err := os.ReadFile(other)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, text, 0o600))
	}
}
