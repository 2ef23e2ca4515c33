package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	chartVersion = regexp.MustCompile(`(?m)^version: .*$`)
	appVersion   = regexp.MustCompile(`(?m)^appVersion: .*$`)
	chartImage   = regexp.MustCompile(`(?m)^image:\n  repository: .*\n  tag: ""\n  digest: ""$`)
)

// chart packs the chart as Helm does, with the version and the digest of the image of this release.
func (o options) chart(b binary) error {
	reference, err := os.ReadFile(filepath.Join(o.out, imageReference))
	if err != nil {
		return err
	}
	tagged, digest, _ := strings.Cut(strings.TrimSpace(string(reference)), "@")
	repository, tag, _ := strings.Cut(tagged, ":")
	number := strings.TrimPrefix(b.tag(), "v")
	change := map[string]func(text string) string{
		"Chart.yaml": func(text string) string {
			text = chartVersion.ReplaceAllString(text, "version: "+number)
			return appVersion.ReplaceAllString(text, "appVersion: "+tag)
		},
		"values.yaml": func(text string) string {
			return chartImage.ReplaceAllString(text, fmt.Sprintf("image:\n  repository: %s\n  tag: %q\n  digest: %q", repository,
				tag, digest))
		},
	}
	var files []file
	tree := os.DirFS(filepath.Join(o.root, "charts", "modelgate"))
	err = fs.WalkDir(tree, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(tree, path)
		if err != nil {
			return err
		}
		if f := change[path]; f != nil {
			changed := f(string(text))
			if changed == string(text) {
				return fmt.Errorf("%s does not have the version or the image that a release replaces", path)
			}
			text = []byte(changed)
		}
		files = append(files, file{path, 0o644, text})
		return nil
	})
	if err != nil {
		return err
	}
	return o.archive("modelgate-"+number+".tgz", "modelgate", b, files)
}
