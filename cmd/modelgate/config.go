package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
)

// errDifferent ends a diff that found differences, so that scripts can tell by the exit code.
var errDifferent = errors.New("the files differ from the stored objects")

type configCmd struct {
	Validate configValidateCmd `cmd:"" help:"Validate files without a gateway. The commands diff and apply also check references to other objects."`
	Apply    configApplyCmd    `cmd:"" help:"Store the objects of files: either all of them or none."`
	Diff     configDiffCmd     `cmd:"" help:"Show what apply would change. Exits with 1 if there is a difference."`
	Get      configGetCmd      `cmd:"" help:"Print stored objects in a form that apply accepts."`
	List     configListCmd     `cmd:"" help:"List the objects of a kind with their state."`
	Delete   configDeleteCmd   `cmd:"" help:"Delete an object."`
	Export   configExportCmd   `cmd:"" help:"Print the configuration as files for apply."`
	Schema   configSchemaCmd   `cmd:"" help:"Print the JSON Schema of objects, for editors."`
	History  configHistoryCmd  `cmd:"" help:"Show who changed an object, when, and how."`
	Rollback configRollbackCmd `cmd:"" help:"Make one object, or all, what they were at a revision."`
}

// fileFlags name files of objects.
type fileFlags struct {
	Filename []string `short:"f" sep:"none" placeholder:"FILE" help:"YAML or JSON file, or - for standard input. May be given more than once."`
	File     []string `arg:"" optional:"" help:"More files."`

	wanted bool // a file without objects is an error
}

// readSome is read of files of which each must hold an object.
func (f fileFlags) readSome(stdin io.Reader) ([]configv1.Document, error) {
	f.wanted = true
	return f.read(stdin)
}

// read returns the documents of all files. What is wrong in any of them is reported at once.
func (f fileFlags) read(stdin io.Reader) ([]configv1.Document, error) {
	names := append(append([]string(nil), f.Filename...), f.File...)
	if len(names) == 0 {
		return nil, admincli.Misused("give at least one file with -f, or - for the standard input")
	}
	var docs []configv1.Document
	var errs configv1.Errors
	for _, name := range names {
		text, err := readFile(name, stdin)
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
			errs = append(errs, d.Validate(knownVendor)...)
		}
		if err == nil && len(found) == 0 && f.wanted {
			return nil, fmt.Errorf("%s contains no object", name)
		}
		docs = append(docs, found...)
	}
	for _, e := range configv1.ValidateConflicts(objectsOf(docs)) {
		for _, d := range docs { // the last of several that are the same is meant
			if configv1.Label(d.Object) == e.Object {
				e.Source = d.Place(e.Field)
			}
		}
		errs = append(errs, e)
	}
	return docs, errs.Err()
}

func readFile(name string, stdin io.Reader) ([]byte, error) {
	if name == "-" {
		text, err := io.ReadAll(stdin)
		if err != nil {
			return nil, fmt.Errorf("reading the standard input: %w", err)
		}
		return text, nil
	}
	return os.ReadFile(name)
}

func objectsOf(docs []configv1.Document) []configv1.Object {
	objects := make([]configv1.Object, len(docs))
	for i := range docs {
		objects[i] = docs[i].Object
	}
	return objects
}

// knownVendor finds a vendor for the validation of providers.
func knownVendor(name string) (configv1.Vendor, bool) {
	all := vendors()
	v, ok := all[name]
	if !ok {
		return configv1.Vendor{Known: slices.Sorted(maps.Keys(all))}, false
	}
	return configv1.Vendor{Exchanges: v.Exchange != nil, Operations: v.Operations(),
		Endpoint: func(p *configv1.Provider) error {
			_, err := v.Endpoint(p)
			return err
		}}, true
}

type configValidateCmd struct{ fileFlags }

// Run checks the files and says how many objects they hold.
func (c configValidateCmd) Run(stdout io.Writer) error {
	docs, err := c.readSome(os.Stdin)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%d objects are valid\n", len(docs))
	return err
}

type configApplyCmd struct {
	adminFlags
	waitFlags
	outputFlags
	pruneFlags
	DryRun bool `help:"Print what would be done, and store nothing."`
	fileFlags
}

// Help is shown below the flags' summary.
func (configApplyCmd) Help() string {
	return `The command returns when the data plane uses the change. It exits with 3 if an object has no effect, or not everywhere.

Example:
  modelgate config apply -f gateway.yaml`
}

// Run applies the files and prints a line for each object.
func (c configApplyCmd) Run(ctx context.Context, stdout io.Writer) error {
	docs, err := c.readSome(os.Stdin)
	if err != nil {
		return err
	}
	client, pending, err := c.waitFlags.client(c.adminFlags)
	if err != nil {
		return err
	}
	answer, err := c.pruneFlags.apply(ctx, client, docs, c.DryRun)
	if err != nil {
		return err
	}
	var idle []string
	err = c.show(stdout, answer, func(w io.Writer) error {
		for _, change := range answer.Changes {
			if _, err := fmt.Fprintln(w, change.Kind, change.Name, doneOf(change)); err != nil {
				return err
			}
		}
		if c.DryRun {
			_, err := fmt.Fprintln(w, "This was a dry run: nothing was stored.")
			return err
		}
		return nil
	})
	for _, change := range answer.Changes {
		if change.Error != "" && !c.NoWait {
			idle = append(idle, "\n  "+change.Kind+" "+change.Name+" has no effect: "+admincli.OneLine(change.Error))
		}
	}
	if len(idle) > 0 {
		err = errors.Join(err, fmt.Errorf("%w:%s", errNotInForce, strings.Join(idle, "")))
	}
	return errors.Join(err, answer.Waits(), pending.err())
}

// doneOf says what was done with an object, or what it waits for.
func doneOf(c adminapi.Change) string {
	if c.Action != adminapi.Pending || c.Approval == nil {
		return c.Action
	}
	return strings.TrimSpace(c.Action + ": it waits for approval " + c.Approval.ID)
}

type configDiffCmd struct {
	adminFlags
	outputFlags
	pruneFlags
	fileFlags
}

// Run prints a unified diff of what is stored and the files.
func (c configDiffCmd) Run(ctx context.Context, stdout io.Writer) error {
	docs, err := c.readSome(os.Stdin)
	if err != nil {
		return err
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	answer, err := c.pruneFlags.apply(ctx, client, docs, true)
	if err != nil {
		return err
	}
	err = c.show(stdout, answer, func(w io.Writer) error {
		for _, change := range answer.Changes {
			if _, err := io.WriteString(w, change.Diff); err != nil {
				return err
			}
		}
		return nil
	})
	different := func(c adminapi.Change) bool { return c.Action != adminapi.Unchanged }
	if err == nil && slices.ContainsFunc(answer.Changes, different) {
		return errDifferent
	}
	return err
}

type configGetCmd struct {
	adminFlags
	Output string `short:"o" enum:"table,text,json,yaml,name" default:"yaml" help:"yaml, json, table or name."`
	Kind   string `arg:"" predictor:"kinds" help:"Kind of object, such as providers."`
	Name   string `arg:"" optional:"" predictor:"objects" help:"Name of one object; for a key or a token, its id or its name. Default: all objects of the kind."`
}

// Run prints objects such that apply takes them back.
func (c configGetCmd) Run(ctx context.Context, stdout io.Writer) error {
	kind, err := parseKind(c.Kind)
	if err != nil {
		return err
	}
	if c.Name == "" {
		return listObjects(ctx, stdout, c.adminFlags, itemFlags{c.Output}, kind, adminapi.ListOptions{})
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	if c.Name, err = idOf(ctx, client, kind, c.Name); err != nil {
		return err
	}
	item, err := client.Get(ctx, kind, c.Name)
	if err != nil {
		return admincli.Said(err)
	}
	return itemFlags{c.Output}.showOne(stdout, kind, item)
}

type configListCmd struct {
	adminFlags
	itemFlags
	Query string `short:"q" placeholder:"TEXT" help:"Only objects whose name contains this text."`
	Kind  string `arg:"" predictor:"kinds" help:"Kind of object, such as providers."`
}

// Run lists the objects of a kind.
func (c configListCmd) Run(ctx context.Context, stdout io.Writer) error {
	kind, err := parseKind(c.Kind)
	if err != nil {
		return err
	}
	return listObjects(ctx, stdout, c.adminFlags, c.itemFlags, kind, adminapi.ListOptions{Query: c.Query})
}

func parseKind(s string) (configv1.Kind, error) {
	kind, ok := configv1.FindKind(s)
	if !ok {
		return kind, admincli.Misused("there is no kind %q; the kinds are %s", s, configv1.KindNames())
	}
	return kind, nil
}

type configDeleteCmd struct {
	adminFlags
	waitFlags
	Kind string `arg:"" predictor:"kinds" help:"Kind of object, such as provider."`
	Name string `arg:"" predictor:"objects" help:"Name of the object; for a key or a token, its id or its name."`
}

// Run deletes one object.
func (c configDeleteCmd) Run(ctx context.Context, stdout io.Writer) error {
	kind, err := parseKind(c.Kind)
	if err != nil {
		return err
	}
	client, pending, err := c.waitFlags.client(c.adminFlags)
	if err != nil {
		return err
	}
	if c.Name, err = idOf(ctx, client, kind, c.Name); err != nil {
		return err
	}
	if err := client.Delete(ctx, kind, c.Name); err != nil {
		return admincli.Said(err)
	}
	_, err = fmt.Fprintln(stdout, kind.Name, c.Name, "deleted")
	return errors.Join(err, pending.err())
}
