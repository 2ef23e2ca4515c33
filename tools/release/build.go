package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// A binary is Modelgate, built for one platform.
type binary struct {
	platform v1.Platform
	path     string
	info     *debug.BuildInfo
}

// build links the binary of the module at root for a platform such as linux/arm64. It stays in the module's cache,
// where the go command sees that there is nothing to do.
func build(ctx context.Context, root, platform string) (binary, error) {
	p, err := v1.ParsePlatform(platform)
	if err != nil {
		return binary{}, err
	}
	path, err := filepath.Abs(filepath.Join(root, ".cache", "image", p.OS+"-"+p.Architecture, "modelgate"))
	if err != nil {
		return binary{}, err
	}
	if err := link(ctx, root, *p, path); err != nil {
		return binary{}, err
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return binary{}, fmt.Errorf("reading what was built: %w", err)
	}
	return binary{*p, path, info}, nil
}

// link builds the program at path. It has no symbols and no debugging data, a third of its size: traces of panics do
// not need them.
func link(ctx context.Context, root string, p v1.Platform, path string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=auto", "-gcflags=all=-dwarf=false",
		"-ldflags=-s -w", "-o", path, "./cmd/modelgate")
	cmd.Dir = root
	// What the machine is set up with must not show in the image.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOEXPERIMENT=", "GOAMD64=", "GOARM64=",
		"GOOS="+p.OS, "GOARCH="+p.Architecture)
	cmd.Stderr = os.Stderr
	return cmd.Run()
}

// version is what `modelgate version` says, and "unknown" if it does not know.
func (b binary) version() string {
	if b.info.Main.Version == "" {
		return "unknown"
	}
	return b.info.Main.Version
}

// tag is the version as a tag of an image may be: "v1.2.3+dirty" and "(devel)" may not.
func (b binary) tag() string {
	return strings.Trim(strings.Map(func(r rune) rune {
		if strings.ContainsRune("+()", r) {
			return '-'
		}
		return r
	}, b.version()), "-")
}

// revision is the commit, "" where the sources were not in a repository.
func (b binary) revision() string { return b.setting("vcs.revision") }

// date is the commit's, and 1970 where there was none.
func (b binary) date() time.Time {
	date, err := time.Parse(time.RFC3339, b.setting("vcs.time"))
	if err != nil {
		return time.Unix(0, 0).UTC()
	}
	return date.UTC()
}

func (b binary) setting(key string) string {
	for _, s := range b.info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}
