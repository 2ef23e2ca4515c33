package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
)

const (
	sbomType = "application/vnd.cyclonedx+json"
	// rootsModule is where the image's certificate authorities are from. The program does not link it, so the binary does
	// not name it.
	rootsModule = "golang.org/x/crypto/x509roots/fallback"
)

// sbom lists what is in the image of a binary: the program by its digest, every module that is linked into it by the
// checksum that go.sum has, Go's standard library, and the certificate authorities.
func sbom(b binary) ([]byte, error) {
	text, err := os.ReadFile(b.path)
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(text)
	main := component(b.info.Main.Path, b.version(), "")
	main.Type = cyclonedx.ComponentTypeApplication
	main.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(digest[:])}}
	main.Licenses = &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}}

	components, err := components(b)
	if err != nil {
		return nil, err
	}
	contains := cyclonedx.Dependency{Ref: main.BOMRef, Dependencies: new([]string)}
	for _, c := range components {
		*contains.Dependencies = append(*contains.Dependencies, c.BOMRef)
	}

	bom := cyclonedx.NewBOM()
	bom.SerialNumber = "urn:uuid:" + nameOf(digest)
	bom.Metadata = &cyclonedx.Metadata{Timestamp: b.date().Format(time.RFC3339), Component: &main}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{contains}
	var out bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom,
		cyclonedx.SpecVersion1_6); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// nameOf makes a UUID (version 8 of RFC 9562) of a digest: the number of a list names its content.
func nameOf(digest [sha256.Size]byte) string {
	digest[6] = digest[6]&0x0f | 0x80
	digest[8] = digest[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", digest[:4], digest[4:6], digest[6:8], digest[8:10], digest[10:16])
}

// components are the parts of the program, and the certificate authorities beside it.
func components(b binary) ([]cyclonedx.Component, error) {
	all := []cyclonedx.Component{component("std", strings.TrimPrefix(b.info.GoVersion, "go"), "")}
	for _, m := range b.info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		all = append(all, component(m.Path, m.Version, m.Sum))
	}
	own, ok := debug.ReadBuildInfo()
	if !ok {
		return nil, errors.New("this program was built without modules")
	}
	i := slices.IndexFunc(own.Deps, func(m *debug.Module) bool { return m.Path == rootsModule })
	if i < 0 {
		return nil, fmt.Errorf("this program does not know the version of %s", rootsModule)
	}
	authorities := component(rootsModule, own.Deps[i].Version, own.Deps[i].Sum)
	authorities.Type = cyclonedx.ComponentTypeData
	return append(all, authorities), nil
}

// component describes one module. Its checksum is as in go.sum: a SHA-256 over the module's files.
func component(path, version, sum string) cyclonedx.Component {
	url := "pkg:golang/" + path + "@" + version
	c := cyclonedx.Component{BOMRef: url, PackageURL: url, Type: cyclonedx.ComponentTypeLibrary, Name: path,
		Version: version}
	if hash, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sum, "h1:")); err == nil &&
		len(hash) == sha256.Size {
		c.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(hash)}}
	}
	return c
}
