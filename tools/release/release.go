package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// checksumsFile has the digest of every other file of a release, as sha256sum reads it.
const checksumsFile = "checksums.txt"

var versions = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$`)

// release writes everything of a version into an empty folder.
func (o options) release(ctx context.Context, binaries []binary, stdout io.Writer) error {
	version := binaries[0].version()
	switch {
	case o.version != "" && o.version != version:
		return fmt.Errorf("the commit is %s, and not %s: tag it, and commit all changes", version, o.version)
	case o.version != "" && !versions.MatchString(version):
		return fmt.Errorf("%s is no version as v1.2.3", version)
	}
	if err := os.RemoveAll(o.out); err != nil {
		return err
	}
	shared, err := o.shared(ctx, binaries[0])
	if err != nil {
		return err
	}
	var linux []binary
	for _, b := range binaries {
		if err := o.platform(b, shared); err != nil {
			return fmt.Errorf("%s: %w", b.platform, err)
		}
		if b.platform.OS == "linux" {
			linux = append(linux, b)
		}
	}
	if len(linux) == 0 {
		return errors.New("an image needs a binary for linux")
	}
	if err := o.image(linux); err != nil {
		return err
	}
	if err := o.chart(binaries[0]); err != nil {
		return fmt.Errorf("packing the chart: %w", err)
	}
	sums, err := o.sums()
	if err != nil {
		return err
	}
	if err := o.scripts(binaries[0], sums); err != nil {
		return err
	}
	if err := o.provenance(binaries[0], sums); err != nil {
		return err
	}
	if sums, err = o.sums(); err != nil {
		return err
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		fmt.Fprintf(&text, "%s  %s\n", sums[name], name)
	}
	if err := o.put(checksumsFile, []byte(text.String())); err != nil {
		return err
	}
	_, err = io.WriteString(stdout, text.String())
	return err
}

// platform writes the archive of a platform, its packages, and the list of what is in the program.
func (o options) platform(b binary, shared []file) error {
	files, err := o.contents(b, shared)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("modelgate_%s_%s_%s", strings.TrimPrefix(b.version(), "v"), b.platform.OS,
		b.platform.Architecture)
	if err := o.archive(name+".tar.gz", name, b, files); err != nil {
		return err
	}
	list, err := sbom(b)
	if err != nil {
		return err
	}
	if err := o.put(name+".cdx.json", list); err != nil {
		return err
	}
	if b.platform.OS != "linux" {
		return nil
	}
	return o.packages(b, files)
}

// imageReference has the name and the digest of the image.
const imageReference = "image.reference"

// image writes the image as a file.
func (o options) image(linux []binary) error {
	folder := filepath.Join(o.out, "image")
	if _, err := write(folder, o.name, linux); err != nil {
		return fmt.Errorf("writing the image: %w", err)
	}
	for from, to := range map[string]string{archiveFile: "image.tar", referenceFile: imageReference} {
		if err := os.Rename(filepath.Join(folder, from), filepath.Join(o.out, to)); err != nil {
			return err
		}
	}
	return os.RemoveAll(folder)
}

// envoy returns the Envoy of a platform, and nil if there is none.
func (o options) envoy(b binary) ([]byte, error) {
	path := o.envoys[b.platform.String()]
	if path == "" {
		return nil, nil
	}
	return os.ReadFile(path)
}

// put writes a file of the release.
func (o options) put(name string, text []byte) error {
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(o.out, name), text, 0o644)
}

// sums returns the digests of the files that are there.
func (o options) sums() (map[string]string, error) {
	entries, err := os.ReadDir(o.out)
	if err != nil {
		return nil, err
	}
	sums := map[string]string{}
	for _, e := range entries {
		f, err := os.Open(filepath.Join(o.out, e.Name()))
		if err != nil {
			return nil, err
		}
		digest := sha256.New()
		_, err = io.Copy(digest, f)
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		sums[e.Name()] = hex.EncodeToString(digest.Sum(nil))
	}
	return sums, nil
}
