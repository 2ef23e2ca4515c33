package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

//go:embed files
var embedded embed.FS

// shared returns the files that are the same on all platforms.
func (o options) shared(ctx context.Context, b binary) ([]file, error) {
	var all []file
	for name, path := range map[string]string{"LICENSE": "LICENSE", "README.md": "README.md",
		"man/modelgate.1": "docs/modelgate.1"} {
		text, err := os.ReadFile(filepath.Join(o.root, path))
		if err != nil {
			return nil, err
		}
		all = append(all, file{name, 0o644, text})
	}
	notices, err := o.notices(ctx, b)
	if err != nil {
		return nil, fmt.Errorf("collecting licences: %w", err)
	}
	all = append(all, file{"THIRD_PARTY_NOTICES", 0o644, notices})
	own, err := build(ctx, o.root, runtime.GOOS+"/"+runtime.GOARCH)
	if err != nil {
		return nil, fmt.Errorf("building for this machine: %w", err)
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		cmd := exec.CommandContext(ctx, own.path, "completion", shell)
		cmd.Stderr = os.Stderr
		text, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("completion of %s: %w", shell, err)
		}
		text = bytes.ReplaceAll(text, []byte(own.path), []byte("modelgate")) // that of the PATH
		all = append(all, file{"completions/modelgate." + shell, 0o644, text})
	}
	slices.SortFunc(all, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return all, nil
}

// contents returns the files of an archive.
func (o options) contents(b binary, shared []file) ([]file, error) {
	program, err := os.ReadFile(b.path)
	if err != nil {
		return nil, err
	}
	all := slices.Concat([]file{{"modelgate", 0o755, program}}, shared)
	envoy, err := o.envoy(b)
	if err != nil {
		return nil, err
	}
	if envoy != nil {
		all = append(all, file{"envoy", 0o755, envoy})
	}
	if b.platform.OS == "linux" {
		unit, err := embedded.ReadFile("files/modelgate.service")
		if err != nil {
			return nil, err
		}
		all = append(all, file{"systemd/modelgate.service", 0o644, unit})
	}
	return all, nil
}

// archive writes files, below a folder, as an archive.
func (o options) archive(name, folder string, b binary, files []file) error {
	below := slices.Clone(files)
	for i := range below {
		below[i].name = folder + "/" + below[i].name
	}
	var packed bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := errors.Join(pack(zipped, b.date(), below), zipped.Close()); err != nil {
		return err
	}
	return o.put(name, packed.Bytes())
}

// licences are files of a module that say under which terms it may be given on.
var licences = regexp.MustCompile(`(?i)^(licen[cs]e|notice|copying|patents)`)

// notices returns the licences of all modules that are linked into the program.
func (o options) notices(ctx context.Context, b binary) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-json", "all")
	cmd.Dir, cmd.Stderr = o.root, os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	dirs := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(text)); ; {
		var m struct{ Path, Version, Dir string }
		if err := d.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		dirs[m.Path+"@"+m.Version] = m.Dir
	}
	var out bytes.Buffer
	out.WriteString("Modelgate contains these Go modules. Their licences follow.\n")
	for _, m := range b.info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		at := m.Path + "@" + m.Version
		entries, err := os.ReadDir(dirs[at])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
		found := false
		for _, e := range entries {
			if e.IsDir() || !licences.MatchString(e.Name()) {
				continue
			}
			text, err := os.ReadFile(filepath.Join(dirs[at], e.Name()))
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(&out, "\n%s\n%s, %s\n\n%s\n", strings.Repeat("=", 80), at, e.Name(), bytes.TrimSpace(text))
			found = true
		}
		if !found {
			return nil, fmt.Errorf("%s has no licence", at)
		}
	}
	return out.Bytes(), nil
}
