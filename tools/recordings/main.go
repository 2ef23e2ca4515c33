// Recordings makes the archives of internal/recordings again from a folder of recorded traffic, whose layout is that
// of the archives with INDEX.md beside them. It leaves out what no test reads.
//
//	recordings FOLDER DESTINATION
package main

import (
	"archive/zip"
	"compress/flate"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// unread are the kinds of exchange, and unreadVendors the vendors, that no test reads.
var (
	unread = []string{
		"responses", "v1-responses", "complete", "generate", "moderations", "count-tokens", "countTokens",
		"images-*", "audio-*", "batches", "files", "files-*", "fine_tuning-*", "models-*",
	}
	unreadVendors = []string{"bedrock-mantle"}
)

func main() {
	if len(os.Args) != 3 {
		panic("usage: recordings FOLDER DESTINATION")
	}
	if err := run(os.DirFS(os.Args[1]), os.Args[2]); err != nil {
		panic(err)
	}
}

func run(from fs.FS, to string) error {
	entries, err := fs.ReadDir(from, ".")
	if err != nil {
		return err
	}
	left := map[string]bool{}
	for _, e := range entries {
		if !e.IsDir() || slices.Contains(unreadVendors, e.Name()) {
			continue
		}
		if err := pack(from, e.Name(), filepath.Join(to, e.Name()+".zip"), left); err != nil {
			return fmt.Errorf("%s: %w", e.Name(), err)
		}
	}
	index, err := fs.ReadFile(from, "INDEX.md")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(to, "INDEX.md"), []byte(indexOf(string(index), left)), 0o644)
}

// pack writes a vendor's archive, which is the same for the same files, and notes in left the folders that it leaves
// out.
func pack(from fs.FS, vendor, to string, left map[string]bool) error {
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	archive := zip.NewWriter(f)
	archive.RegisterCompressor(zip.Deflate,
		func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) })
	err = fs.WalkDir(from, vendor, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		data, err := fs.ReadFile(from, path.Join(name, "meta.json"))
		switch {
		case d.IsDir() && err == nil && isUnread(data):
			left[name] = true
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		if data, err = fs.ReadFile(from, name); err != nil {
			return err
		}
		w, err := archive.Create(strings.TrimPrefix(name, vendor+"/"))
		if err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	})
	if err != nil {
		return err
	}
	return archive.Close()
}

func isUnread(meta []byte) bool {
	var m struct{ Kind string }
	if json.Unmarshal(meta, &m) != nil {
		return false
	}
	return slices.ContainsFunc(unread, func(pattern string) bool {
		ok, err := path.Match(pattern, m.Kind)
		return ok && err == nil
	})
}

// indexOf keeps of the folder's index the sources and what is in the archives.
func indexOf(index string, left map[string]bool) string {
	var out strings.Builder
	out.WriteString("# Where the recordings come from\n\nWritten by `tools/recordings`. The counts of the first table are those of the folder that they were taken from.\n\n")
	vendor, sources := "", false
	for line := range strings.Lines(index) {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			vendor, _, _ = strings.Cut(strings.TrimSpace(heading), " ")
			sources = sources || vendor == "Sources"
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " |")
		if sources && !slices.Contains(unreadVendors, vendor) && !left[vendor+"/"+name] {
			out.WriteString(line)
		}
	}
	return out.String()
}
