package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template"
)

// provenance writes where the files of a release come from: a statement of in-toto with SLSA's provenance. Nobody has
// signed it. Whoever builds the same commit gets the same bytes, which proves more.
func (o options) provenance(b binary, sums map[string]string) error {
	type digest struct {
		SHA256 string `json:"sha256,omitempty"`
		Commit string `json:"gitCommit,omitempty"`
	}
	type subject struct {
		Name   string `json:"name"`
		Digest digest `json:"digest"`
	}
	type dependency struct {
		URI    string `json:"uri"`
		Digest digest `json:"digest"`
	}
	var subjects []subject
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		subjects = append(subjects, subject{name, digest{SHA256: sums[name]}})
	}
	repository := "https://" + b.info.Main.Path
	text, err := json.MarshalIndent(map[string]any{
		"_type": "https://in-toto.io/Statement/v1", "subject": subjects,
		"predicateType": "https://slsa.dev/provenance/v1",
		"predicate": map[string]any{
			"buildDefinition": map[string]any{
				"buildType":          repository + "/tree/main/tools/release",
				"externalParameters": map[string]any{"version": b.version(), "platforms": o.platforms},
				"resolvedDependencies": []dependency{{"git+" + repository, digest{Commit: b.revision()}},
					{"pkg:golang/go@" + strings.TrimPrefix(b.info.GoVersion, "go"), digest{}}},
			},
			"runDetails": map[string]any{"builder": map[string]string{"id": repository + "/blob/main/Makefile#release"}},
		},
	}, "", "  ")
	if err != nil {
		return err
	}
	return o.put("provenance.intoto.json", append(text, '\n'))
}

// scripts writes the install script and the formula of Homebrew, which name the archives with their digests.
func (o options) scripts(b binary, sums map[string]string) error {
	version := strings.TrimPrefix(b.version(), "v")
	archives := map[string]string{}
	for _, p := range o.platforms {
		os, arch, _ := strings.Cut(p, "/")
		archives[os+"_"+arch] = sums[fmt.Sprintf("modelgate_%s_%s_%s.tar.gz", version, os, arch)]
	}
	for _, name := range []string{"install.sh", "modelgate.rb"} {
		t, err := template.New(name+".tmpl").Option("missingkey=error").ParseFS(embedded, "files/"+name+".tmpl")
		if err != nil {
			return err
		}
		var out bytes.Buffer
		if err := t.Execute(&out, map[string]any{"Version": version, "Sums": archives,
			"Downloads": "https://" + b.info.Main.Path + "/releases/download/v" + version}); err != nil {
			return err
		}
		if err := o.put(name, out.Bytes()); err != nil {
			return err
		}
	}
	return nil
}
