package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

// installed says where a package has the files of an archive. Envoy is beside the program, which finds it there.
var installed = map[string]string{
	"modelgate":                   "/usr/lib/modelgate/modelgate",
	"envoy":                       "/usr/lib/modelgate/envoy",
	"LICENSE":                     "/usr/share/doc/modelgate/LICENSE",
	"README.md":                   "/usr/share/doc/modelgate/README.md",
	"THIRD_PARTY_NOTICES":         "/usr/share/doc/modelgate/THIRD_PARTY_NOTICES",
	"man/modelgate.1":             "/usr/share/man/man1/modelgate.1",
	"completions/modelgate.bash":  "/usr/share/bash-completion/completions/modelgate",
	"completions/modelgate.zsh":   "/usr/share/zsh/vendor-completions/_modelgate",
	"completions/modelgate.fish":  "/usr/share/fish/vendor_completions.d/modelgate.fish",
	"systemd/modelgate.service":   "/usr/lib/systemd/system/modelgate.service",
	"systemd/modelgate.sysconfig": "/etc/modelgate/environment",
}

// packages writes a .deb and an .rpm.
func (o options) packages(b binary, contents []file) error {
	stage, err := os.MkdirTemp("", "modelgate-release-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(stage) }()
	environment, err := embedded.ReadFile("files/environment")
	if err != nil {
		return err
	}
	contents = append(contents, file{"systemd/modelgate.sysconfig", 0o640, environment})
	all := files.Contents{{Source: "/usr/lib/modelgate/modelgate", Destination: "/usr/bin/modelgate",
		Type: files.TypeSymlink, FileInfo: &files.ContentFileInfo{MTime: b.date()}}}
	for i, f := range contents {
		to, ok := installed[f.name]
		if !ok {
			return fmt.Errorf("no package knows where %s is", f.name)
		}
		from := filepath.Join(stage, fmt.Sprint(i))
		if err := os.WriteFile(from, f.text, 0o600); err != nil {
			return err
		}
		c := &files.Content{Source: from, Destination: to,
			FileInfo: &files.ContentFileInfo{Mode: os.FileMode(f.mode), MTime: b.date()}}
		if strings.HasPrefix(to, "/etc/") {
			c.Type = files.TypeConfigNoReplace
		}
		all = append(all, c)
	}
	for _, p := range []nfpm.Packager{deb.Default, rpm.DefaultRPM} {
		if err := o.pack(b, p, all); err != nil {
			return err
		}
	}
	return nil
}

// pack writes one package.
func (o options) pack(b binary, p nfpm.Packager, contents files.Contents) error {
	info := nfpm.WithDefaults(&nfpm.Info{Name: "modelgate", Platform: "linux", Arch: b.platform.Architecture,
		Version: b.version(), Maintainer: "Modelgate maintainers <maintainers@users.noreply.github.com>", Section: "net",
		Priority: "optional", Homepage: "https://" + b.info.Main.Path, License: "Apache-2.0", MTime: b.date(),
		Description: "An Envoy-based gateway to generative models.\n" +
			"One interface of OpenAI's style over many providers, with keys, limits, budgets and a ledger.",
		Overridables: nfpm.Overridables{Contents: contents, RPM: nfpm.RPM{BuildHost: "localhost",
			Summary: "An Envoy-based gateway to generative models"}}})
	if p == deb.Default {
		info.Depends = []string{"libc6 (>= 2.31)"} // of Envoy
	}
	kind := p.(nfpm.PackagerWithExtension).ConventionalExtension()
	if err := nfpm.PrepareForPackager(info, strings.TrimPrefix(kind, ".")); err != nil {
		return err
	}
	var out bytes.Buffer
	if err := p.Package(info, &out); err != nil {
		return err
	}
	return o.put(p.ConventionalFileName(info), out.Bytes())
}
