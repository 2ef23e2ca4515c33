package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"text/tabwriter"

	"github.com/modelgate/modelgate/api/config/crd"
	"github.com/modelgate/modelgate/controlplane/ledger/segment"
	"github.com/modelgate/modelgate/envoy/process"
	"github.com/modelgate/modelgate/internal/proc"
)

type versionCmd struct {
	Output string `short:"o" enum:"text,json" default:"text" help:"Format of the output: ${enum}."`
}

// A version is what the program is, and what it works with.
type version struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Date     string `json:"date,omitempty"` // of the commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Envoy    string `json:"envoy"` // the oldest
	Objects  string `json:"objects"`
	Segments int    `json:"segments"`
}

// Run prints the version of the module, or the commit that was built, and below it the rest.
func (c versionCmd) Run(stdout io.Writer) error {
	v := theVersion()
	if c.Output == "json" {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		return e.Encode(v)
	}
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	_, err := fmt.Fprintf(w, "modelgate %s\nCOMMIT\t%s\nDATE\t%s\nGO\t%s, %s\nENVOY\t%s or newer\nOBJECTS\t%s\nSEGMENTS\tversion %d\n",
		v.Version, cmp.Or(v.Commit, "unknown"), cmp.Or(v.Date, "unknown"), v.Go, v.Platform, v.Envoy, v.Objects,
		v.Segments)
	return cmp.Or(err, w.Flush())
}

func theVersion() version {
	v := version{Version: proc.Version(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Envoy: process.MinVersion, Objects: crd.Group + "/" + crd.Version, Segments: segment.Version}
	info, _ := debug.ReadBuildInfo()
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.time":
			v.Date = s.Value
		}
	}
	return v
}
