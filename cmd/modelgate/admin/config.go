// Package admin has the commands that read and change what a running gateway has: configuration, keys, accounts, usage
// and audit.
package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/cmd/modelgate/cmdline"
	"github.com/modelgate/modelgate/cmd/modelgate/console"
)

// ErrDifferent ends a diff that found differences, so that scripts can tell by the exit code.
var ErrDifferent = errors.New("the files differ from the stored objects")

// ConfigCmd is the command config.
type ConfigCmd struct {
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

type configValidateCmd struct{ cmdline.FileFlags }

// Run checks the files and says how many objects they hold.
func (c configValidateCmd) Run(stdout io.Writer) error {
	docs, err := c.ReadSome(os.Stdin)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%d objects are valid\n", len(docs))
	return err
}

type configApplyCmd struct {
	adminflags.AdminFlags
	adminflags.WaitFlags
	adminflags.OutputFlags
	pruneFlags
	DryRun bool `help:"Print what would be done, and store nothing."`
	cmdline.FileFlags
}

// Help is shown below the flags' summary.
func (configApplyCmd) Help() string {
	return `The command returns when the data plane uses the change. It exits with 3 if an object has no effect, or not everywhere.

Example:
  modelgate config apply -f gateway.yaml`
}

// Run applies the files and prints a line for each object.
func (c configApplyCmd) Run(ctx context.Context, stdout io.Writer) error {
	docs, err := c.ReadSome(os.Stdin)
	if err != nil {
		return err
	}
	client, pending, err := c.WaitFlags.Client(c.AdminFlags)
	if err != nil {
		return err
	}
	answer, err := c.pruneFlags.apply(ctx, client, docs, c.DryRun)
	if err != nil {
		return err
	}
	var idle []string
	err = c.Show(stdout, answer, func(out *console.Text) {
		for _, change := range answer.Changes {
			out.Println(change.Kind, change.Name, doneOf(change))
		}
		if c.DryRun {
			out.WriteString("This was a dry run: nothing was stored.\n")
		}
	})
	for _, change := range answer.Changes {
		if change.Error != "" && !c.NoWait {
			idle = append(idle, "\n  "+change.Kind+" "+change.Name+" has no effect: "+adminapi.OneLine(change.Error))
		}
	}
	if len(idle) > 0 {
		err = errors.Join(err, fmt.Errorf("%w:%s", adminflags.ErrNotInForce, strings.Join(idle, "")))
	}
	return errors.Join(err, answer.Waits(), pending.Err())
}

// doneOf says what was done with an object, or what it waits for.
func doneOf(c adminapi.Change) string {
	if c.Action != adminapi.Pending || c.Approval == nil {
		return c.Action
	}
	return strings.TrimSpace(c.Action + ": it waits for approval " + c.Approval.ID)
}

type configDiffCmd struct {
	adminflags.AdminFlags
	adminflags.OutputFlags
	pruneFlags
	cmdline.FileFlags
}

// Run prints a unified diff of what is stored and the files.
func (c configDiffCmd) Run(ctx context.Context, stdout io.Writer) error {
	docs, err := c.ReadSome(os.Stdin)
	if err != nil {
		return err
	}
	client, err := c.Client()
	if err != nil {
		return err
	}
	answer, err := c.pruneFlags.apply(ctx, client, docs, true)
	if err != nil {
		return err
	}
	err = c.Show(stdout, answer, func(out *console.Text) {
		for _, change := range answer.Changes {
			out.WriteString(change.Diff)
		}
	})
	different := func(c adminapi.Change) bool { return c.Action != adminapi.Unchanged }
	if err == nil && slices.ContainsFunc(answer.Changes, different) {
		return ErrDifferent
	}
	return err
}

type configGetCmd struct {
	adminflags.AdminFlags
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
		return listObjects(ctx, stdout, c.AdminFlags, adminflags.ItemFlags{Output: c.Output}, kind, adminapi.ListOptions{})
	}
	client, err := c.Client()
	if err != nil {
		return err
	}
	if c.Name, err = adminflags.IDOf(ctx, client, kind, c.Name); err != nil {
		return err
	}
	item, err := client.Get(ctx, kind, c.Name)
	if err != nil {
		return admincli.Said(err)
	}
	return adminflags.ItemFlags{Output: c.Output}.ShowOne(stdout, kind, item)
}

type configListCmd struct {
	adminflags.AdminFlags
	adminflags.ItemFlags
	Query string `short:"q" placeholder:"TEXT" help:"Only objects whose name contains this text."`
	Kind  string `arg:"" predictor:"kinds" help:"Kind of object, such as providers."`
}

// Run lists the objects of a kind.
func (c configListCmd) Run(ctx context.Context, stdout io.Writer) error {
	kind, err := parseKind(c.Kind)
	if err != nil {
		return err
	}
	return listObjects(ctx, stdout, c.AdminFlags, c.ItemFlags, kind, adminapi.ListOptions{Query: c.Query})
}

type configDeleteCmd struct {
	adminflags.AdminFlags
	adminflags.WaitFlags
	Kind string `arg:"" predictor:"kinds" help:"Kind of object, such as provider."`
	Name string `arg:"" predictor:"objects" help:"Name of the object; for a key or a token, its id or its name."`
}

// Run deletes one object.
func (c configDeleteCmd) Run(ctx context.Context, stdout io.Writer) error {
	kind, err := parseKind(c.Kind)
	if err != nil {
		return err
	}
	return deleteObject(ctx, stdout, c.AdminFlags, &c.WaitFlags, kind, c.Name, kind.Name, "deleted")
}
