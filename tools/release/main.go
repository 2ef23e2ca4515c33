// Command release makes what people install. "image" makes an image without a container engine. "release" makes
// everything of a version: archives, packages, the image, the chart, lists of what is in them, and their checksums.
//
// Nothing here may depend on when or where it runs. The dates are the commit's, the certificate
// authorities come from a module that go.sum pins and not from this machine, and the same sources give the same bytes,
// so that anyone can check a released digest.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		log.Fatal("release: ", err)
	}
}

// options are the command line.
type options struct {
	root, out, name string
	platforms       []string
	version         string            // that a release must have; "": that of the commit
	envoys          map[string]string // binaries, by platform
}

// run reads the command line: "image" or "release", and flags.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) == 0 {
		args = []string{"image"}
	}
	what, o := args[0], options{envoys: map[string]string{}}
	flags := flag.NewFlagSet(what, flag.ContinueOnError)
	flags.StringVar(&o.root, "root", "../..", "folder of the module that is built")
	flags.StringVar(&o.out, "out", "../../dist/"+what, "folder that the results are written to")
	flags.StringVar(&o.name, "name", "ghcr.io/modelgate/modelgate", "name of the image, without a tag")
	platforms := "linux/amd64,linux/arm64"
	if what == "release" {
		platforms += ",darwin/amd64,darwin/arm64"
	}
	flags.StringVar(&platforms, "platforms", platforms, "platforms, the first of which old engines load")
	flags.StringVar(&o.version, "version", "", "version of the release, which the commit must have as its tag")
	flags.Func("envoy", "PLATFORM=FILE: the Envoy of a platform; may be given more than once", func(text string) error {
		platform, path, ok := strings.Cut(text, "=")
		if !ok {
			return fmt.Errorf("%q is not PLATFORM=FILE", text)
		}
		o.envoys[platform] = path
		return nil
	})
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	o.platforms = strings.Split(platforms, ",")
	binaries, err := o.build(ctx)
	if err != nil {
		return err
	}
	switch what {
	case "image":
		reference, err := write(o.out, o.name, binaries)
		if err != nil {
			return fmt.Errorf("writing the image: %w", err)
		}
		_, err = fmt.Fprintln(stdout, reference)
		return err
	case "release":
		return o.release(ctx, binaries, stdout)
	default:
		return fmt.Errorf("%q is neither image nor release", what)
	}
}

// build builds the program for every platform.
func (o options) build(ctx context.Context) (binaries []binary, err error) {
	for _, platform := range o.platforms {
		b, err := build(ctx, o.root, platform)
		if err != nil {
			return nil, fmt.Errorf("building for %s: %w", platform, err)
		}
		binaries = append(binaries, b)
	}
	return binaries, nil
}
