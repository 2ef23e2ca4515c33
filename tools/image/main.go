// Command image makes the image of Modelgate without a container engine: an OCI layout with one image for each
// platform, a list of what is in it (CycloneDX) attached to each, and the same as one file that every engine loads.
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
		log.Fatal("image: ", err)
	}
}

// run reads the command line, makes the image and says what it is called.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	root := flags.String("root", "../..", "folder of the module that is built")
	out := flags.String("out", "../../dist/image", "folder that the image is written to")
	name := flags.String("name", "ghcr.io/modelgate/modelgate", "name of the image, without a tag")
	platforms := flags.String("platforms", "linux/amd64,linux/arm64", "platforms, the first of which old engines load")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var binaries []binary
	for platform := range strings.SplitSeq(*platforms, ",") {
		b, err := build(ctx, *root, platform)
		if err != nil {
			return fmt.Errorf("building for %s: %w", platform, err)
		}
		binaries = append(binaries, b)
	}
	reference, err := write(*out, *name, binaries)
	if err != nil {
		return fmt.Errorf("writing the image: %w", err)
	}
	_, err = fmt.Fprintln(stdout, reference)
	return err
}
