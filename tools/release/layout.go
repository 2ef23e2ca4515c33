package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// What write leaves in its folder, beside sbom-OS-ARCH.cdx.json for each platform.
const (
	layoutDir     = "oci"           // the OCI layout
	archiveFile   = "modelgate.tar" // the same as one file
	referenceFile = "reference"     // name, tag and digest
)

// write makes the images of all binaries and writes them to the folder out. It returns how the image is referred to:
// name:tag@digest.
func write(out, name string, binaries []binary) (string, error) {
	tagged := name + ":" + binaries[0].tag()
	path := filepath.Join(out, layoutDir)
	if err := os.RemoveAll(path); err != nil {
		return "", err
	}
	target, err := layout.Write(path, empty.Index)
	if err != nil {
		return "", err
	}
	images, index, err := multiarch(binaries)
	if err != nil {
		return "", err
	}
	// The first name is OCI's, the second the one that containerd and Docker look for.
	names := layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": binaries[0].tag(),
		"io.containerd.image.name": tagged})
	if err := target.AppendIndex(index, names); err != nil {
		return "", err
	}
	for i, b := range binaries {
		if err := describe(out, target, b, images[i]); err != nil {
			return "", fmt.Errorf("listing what is in the image for %s: %w", b.platform, err)
		}
	}
	if err := archive(out, tagged, binaries[0].date(), images[0]); err != nil {
		return "", fmt.Errorf("writing the archive: %w", err)
	}
	digest, err := index.Digest()
	if err != nil {
		return "", err
	}
	reference := tagged + "@" + digest.String()
	return reference, os.WriteFile(filepath.Join(out, referenceFile), []byte(reference+"\n"), 0o644)
}

// multiarch makes the image of each binary, and the index from which an engine takes that of its platform.
func multiarch(binaries []binary) ([]v1.Image, v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	var images []v1.Image
	for _, b := range binaries {
		img, err := image(b)
		if err != nil {
			return nil, nil, fmt.Errorf("making the image for %s: %w", b.platform, err)
		}
		images = append(images, img)
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img,
			Descriptor: v1.Descriptor{Platform: &b.platform}})
	}
	return images, mutate.Annotations(index, labels(binaries[0])).(v1.ImageIndex), nil
}

// describe writes the list of what is in an image beside the layout, and into it as an artifact whose subject is the
// image: a registry that it is copied to answers with it when it is asked for the image's referrers.
func describe(out string, target layout.Path, b binary, img v1.Image) error {
	list, err := sbom(b)
	if err != nil {
		return err
	}
	name := "sbom-" + b.platform.OS + "-" + b.platform.Architecture + ".cdx.json"
	if err := os.WriteFile(filepath.Join(out, name), list, 0o644); err != nil {
		return err
	}
	subject, err := partial.Descriptor(img)
	if err != nil {
		return err
	}
	content, err := blob(target, list, sbomType)
	if err != nil {
		return err
	}
	content.Annotations = map[string]string{"org.opencontainers.image.title": name}
	config, err := blob(target, []byte("{}"), "application/vnd.oci.empty.v1+json")
	if err != nil {
		return err
	}
	manifest, err := json.Marshal(v1.Manifest{
		SchemaVersion: 2,
		MediaType:     types.OCIManifestSchema1,
		ArtifactType:  sbomType,
		Config:        config,
		Layers:        []v1.Descriptor{content},
		Subject:       &v1.Descriptor{MediaType: subject.MediaType, Size: subject.Size, Digest: subject.Digest},
	})
	if err != nil {
		return err
	}
	descriptor, err := blob(target, manifest, types.OCIManifestSchema1)
	if err != nil {
		return err
	}
	descriptor.ArtifactType = sbomType
	return target.AppendDescriptor(descriptor)
}

// blob keeps data in the layout and returns what refers to it.
func blob(target layout.Path, data []byte, mediaType types.MediaType) (v1.Descriptor, error) {
	digest, size, err := v1.SHA256(bytes.NewReader(data))
	if err != nil {
		return v1.Descriptor{}, err
	}
	return v1.Descriptor{MediaType: mediaType, Size: size, Digest: digest},
		target.WriteBlob(digest, io.NopCloser(bytes.NewReader(data)))
}

// archive packs the layout into one file. The list that it adds, of one platform's image, is what `docker load` reads
// where Docker does not keep its images in containerd; others do not look at it.
func archive(out, tagged string, date time.Time, img v1.Image) error {
	manifest, err := img.Manifest()
	if err != nil {
		return err
	}
	old := map[string]any{"RepoTags": []string{tagged}, "Config": blobPath(manifest.Config.Digest)}
	var layers []string
	for _, l := range manifest.Layers {
		layers = append(layers, blobPath(l.Digest))
	}
	old["Layers"] = layers
	list, err := json.Marshal([]any{old})
	if err != nil {
		return err
	}
	files := []file{{"manifest.json", 0o644, list}}
	tree := os.DirFS(filepath.Join(out, layoutDir))
	err = fs.WalkDir(tree, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(tree, path)
		files = append(files, file{path, 0o644, text})
		return err
	})
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	if err := pack(&packed, date, files); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, archiveFile), packed.Bytes(), 0o644)
}

func blobPath(digest v1.Hash) string { return "blobs/" + digest.Algorithm + "/" + digest.Hex }
