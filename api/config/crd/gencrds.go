//go:build ignore

// This program writes the CustomResourceDefinitions into the folder of -o, a file for each kind. It removes files of
// kinds that there are not any more.
package main

import (
	"flag"
	"log"
	"os"
	"path/filepath"

	"github.com/modelgate/modelgate/api/config/crd"
)

func main() {
	folder := flag.String("o", "", "folder")
	flag.Parse()
	old, err := filepath.Glob(filepath.Join(*folder, "*.yaml"))
	if err != nil {
		log.Fatal(err)
	}
	for _, file := range old {
		if err := os.Remove(file); err != nil {
			log.Fatal(err)
		}
	}
	for _, k := range crd.Kinds() {
		text, err := crd.Definition(k)
		if err != nil {
			log.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(*folder, k.Plural+".yaml"), text, 0o644); err != nil {
			log.Fatal(err)
		}
	}
}
