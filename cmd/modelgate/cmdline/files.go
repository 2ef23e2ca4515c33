// Package cmdline has what commands of every kind share: the files that a command line names, where
// etcd is, and what a command knows of its machine.
package cmdline

import (
	"errors"
	"fmt"
	"io"
	"os"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/internal/provider/all"
)

// FileFlags name files of objects.
type FileFlags struct {
	Filename []string `short:"f" sep:"none" placeholder:"FILE" help:"YAML or JSON file, or - for standard input. May be given more than once."`
	File     []string `arg:"" optional:"" help:"More files."`

	wanted bool // a file without objects is an error
}

// ReadSome is Read of files that must each hold an object.
func (f FileFlags) ReadSome(stdin io.Reader) ([]configv1.Document, error) {
	f.wanted = true
	return f.Read(stdin)
}

// Read returns the documents of all files. What is wrong in any of them is reported at once.
func (f FileFlags) Read(stdin io.Reader) ([]configv1.Document, error) {
	names := append(append([]string(nil), f.Filename...), f.File...)
	if len(names) == 0 {
		return nil, admincli.Misused("give at least one file with -f, or - for the standard input")
	}
	var docs []configv1.Document
	var errs configv1.Errors
	for _, name := range names {
		text, err := ReadFile(name, stdin)
		if err != nil {
			return nil, err
		}
		found, err := configv1.ParseYAML(name, text)
		wrong, ok := errors.AsType[configv1.Errors](err)
		if err != nil && !ok {
			return nil, err
		}
		errs = append(errs, wrong...)
		for _, d := range found {
			errs = append(errs, d.Validate(all.Known)...)
		}
		if err == nil && len(found) == 0 && f.wanted {
			return nil, fmt.Errorf("%s contains no object", name)
		}
		docs = append(docs, found...)
	}
	for _, e := range configv1.ValidateConflicts(ObjectsOf(docs)) {
		for _, d := range docs { // the last of several that are the same is meant
			if configv1.Label(d.Object) == e.Object {
				e.Source = d.Place(e.Field)
			}
		}
		errs = append(errs, e)
	}
	return docs, errs.Err()
}

// ReadFile reads a file, or the standard input for -.
func ReadFile(name string, stdin io.Reader) ([]byte, error) {
	if name == "-" {
		text, err := io.ReadAll(stdin)
		if err != nil {
			return nil, fmt.Errorf("reading the standard input: %w", err)
		}
		return text, nil
	}
	return os.ReadFile(name)
}

// ObjectsOf returns the objects of documents.
func ObjectsOf(docs []configv1.Document) []configv1.Object {
	objects := make([]configv1.Object, len(docs))
	for i := range docs {
		objects[i] = docs[i].Object
	}
	return objects
}
