package admin

import (
	"context"
	"errors"
	"io"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/cmd/modelgate/console"
)

type configHistoryCmd struct {
	adminflags.AdminFlags
	adminflags.OutputFlags
	Kind string `arg:"" predictor:"kinds" help:"Kind of object, such as provider."`
	Name string `arg:"" predictor:"objects" help:"Name of the object."`
}

// Run prints the versions of an object, newest first, with their differences.
func (c configHistoryCmd) Run(ctx context.Context, stdout io.Writer) error {
	kind, err := parseKind(c.Kind)
	if err != nil {
		return err
	}
	call := func(client *adminapi.Client) ([]adminapi.Version, error) { return client.History(ctx, kind, c.Name) }
	return adminflags.Ask(ctx, c.AdminFlags, c.OutputFlags, stdout, call,
		func(out *console.Text, all []adminapi.Version) {
			for _, v := range all {
				out.Printf("revision %d %s %s %s\n%s", v.Revision, out.Time(v.At), v.Action, out.Named(v.Actor), v.Diff)
			}
		})
}

type configRollbackCmd struct {
	adminflags.AdminFlags
	adminflags.WaitFlags
	adminflags.OutputFlags
	Revision int64  `required:"" help:"Revision of the history."`
	DryRun   bool   `help:"Show what would change, and change nothing."`
	Kind     string `arg:"" optional:"" predictor:"kinds" help:"Kind of object. Default: all objects but keys, accounts and tokens."`
	Name     string `arg:"" optional:"" predictor:"objects" help:"Name of the object."`
}

// Run rolls back and prints the changes.
func (c configRollbackCmd) Run(ctx context.Context, stdout io.Writer) error {
	var kind configv1.Kind
	var err error
	if c.Kind != "" {
		if kind, err = parseKind(c.Kind); err != nil {
			return err
		}
		if c.Name == "" {
			return admincli.Misused("give the name of the object, or no kind to roll back all objects")
		}
	}
	client, pending, err := c.WaitFlags.Client(c.AdminFlags)
	if err != nil {
		return err
	}
	answer, err := client.Rollback(ctx, kind, c.Name, c.Revision, c.DryRun)
	if err != nil {
		return admincli.Said(err)
	}
	err = c.Show(stdout, answer, func(out *console.Text) {
		for _, change := range answer.Changes {
			if change.Action != adminapi.Unchanged {
				out.Printf("%s %s %s\n%s", change.Kind, change.Name, change.Action, change.Diff)
			}
		}
	})
	return errors.Join(err, answer.Waits(), pending.Err())
}
