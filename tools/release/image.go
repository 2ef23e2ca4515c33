package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// What the files of the image are called. The certificate authorities are where Envoy's official image has them as
// well: the control plane tells Envoy the path that it finds in its own image.
const (
	programPath = "modelgate"
	rootsPath   = "etc/ssl/certs/ca-certificates.crt"
)

// user is the unprivileged user that distroless images have as well.
const user = "65532:65532"

// A file goes into a layer; one whose name ends in "/" is a folder.
type file struct {
	name string
	mode int64
	text []byte
}

// image builds the image of one binary: a layer that hardly ever changes, and the program. There is no shell and
// nothing that can be written to.
func image(b binary) (v1.Image, error) {
	base, err := layer(b.date(), baseFiles())
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(b.path)
	if err != nil {
		return nil, err
	}
	program, err := layer(b.date(), []file{{programPath, 0o555, text}})
	if err != nil {
		return nil, err
	}
	created := v1.Time{Time: b.date()}
	img, err := mutate.ConfigFile(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1),
		types.OCIConfigJSON), &v1.ConfigFile{
		Created:      created,
		OS:           b.platform.OS,
		Architecture: b.platform.Architecture,
		Variant:      b.platform.Variant,
		RootFS:       v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User:       user,
			WorkingDir: "/",
			Entrypoint: []string{"/" + programPath},
			Env:        []string{"PATH=/"},
			Labels:     labels(b),
		},
	})
	if err != nil {
		return nil, err
	}
	img, err = mutate.Append(img,
		mutate.Addendum{Layer: base, MediaType: types.OCILayer,
			History: v1.History{Created: created, CreatedBy: "users and certificate authorities"}},
		mutate.Addendum{Layer: program, MediaType: types.OCILayer,
			History: v1.History{Created: created, CreatedBy: "go build ./cmd/modelgate"}},
	)
	if err != nil {
		return nil, err
	}
	return mutate.Annotations(img, labels(b)).(v1.Image), nil
}

// labels are the standard ones of OCI's image specification.
func labels(b binary) map[string]string {
	const prefix = "org.opencontainers.image."
	all := map[string]string{
		prefix + "title":         "modelgate",
		prefix + "description":   "An Envoy-based gateway to generative models",
		prefix + "source":        "https://" + b.info.Main.Path,
		prefix + "documentation": "https://" + b.info.Main.Path + "/tree/main/docs",
		prefix + "version":       b.version(),
		prefix + "revision":      b.revision(),
		prefix + "created":       b.date().Format(time.RFC3339),
		prefix + "licenses":      "Apache-2.0",
	}
	maps.DeleteFunc(all, func(_, value string) bool { return value == "" })
	return all
}

// baseFiles are those that a static Go program looks for.
func baseFiles() []file {
	return []file{
		{"etc/", 0o755, nil},
		{"etc/passwd", 0o644, []byte("root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n")},
		{"etc/group", 0o644, []byte("root:x:0:\nnonroot:x:65532:\n")},
		{"etc/ssl/", 0o755, nil},
		{"etc/ssl/certs/", 0o755, nil},
		{rootsPath, 0o644, roots()},
	}
}

// roots returns Mozilla's certificate authorities as PEM. They are a file, and not linked into the program, so that an
// operator can mount others. Those that Mozilla trusts only up to a date are left out: a file cannot say so.
func roots() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return out.Bytes()
}

// layer packs files, all of them root's and of one date. It is compressed here and once: the library would do it for
// each digest that it is asked for.
func layer(date time.Time, files []file) (v1.Layer, error) {
	var packed bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	if err := pack(zipped, date, files); err != nil {
		return nil, err
	}
	if err := zipped.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(packed.Bytes())), nil
	},
		tarball.WithMediaType(types.OCILayer))
}

func pack(to io.Writer, date time.Time, files []file) error {
	w := tar.NewWriter(to)
	for _, f := range files {
		header := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.text)), ModTime: date, Format: tar.FormatUSTAR,
			Typeflag: tar.TypeReg}
		if f.name[len(f.name)-1] == '/' {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return fmt.Errorf("packing %s: %w", f.name, err)
		}
		if _, err := w.Write(f.text); err != nil {
			return fmt.Errorf("packing %s: %w", f.name, err)
		}
	}
	return w.Close()
}
