package inspect

import (
	"context"
	"io"
	"slices"
	"strings"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/cmd/modelgate/console"
	"github.com/modelgate/modelgate/cmd/modelgate/doctor"
)

// DoctorCmd is the command doctor.
type DoctorCmd struct {
	adminflags.AdminFlags
	adminflags.OutputFlags
	Test bool   `negatable:"" default:"true" help:"Send one request to every provider with its credential."`
	All  bool   `help:"Include notes in the table."`
	Host string `placeholder:"NAME" help:"Host name that clients use for the gateway. The command checks it against the certificate. Default: the host of its URL."`
}

// Help is shown below the flags' summary.
func (DoctorCmd) Help() string {
	return `The command exits with 1 if it finds an error. Without a running gateway, it checks the data folder.

Example:
  modelgate doctor --data /var/lib/modelgate --host api.example.com`
}

// Run looks for what is wrong and prints it.
func (c DoctorCmd) Run(ctx context.Context, stdout io.Writer) error {
	o := doctor.Options{Host: c.Host, Test: c.Test, Connect: c.Connect}
	if c.Server == "" {
		o.Data = c.Data
	}
	found := doctor.Examine(ctx, o)
	err := c.Show(stdout, struct {
		Findings []doctor.Finding `json:"findings"`
	}{found}, func(out *console.Text) {
		var text strings.Builder
		doctor.Table(&text, found, c.All)
		if client, err := c.Client(); err == nil {
			out.Names = adminapi.Names(ctx, client)
		}
		out.WriteString(out.Named(text.String()))
	})
	if err != nil {
		return err
	}
	if slices.ContainsFunc(found, func(f doctor.Finding) bool { return f.Severity == doctor.Error }) {
		return adminflags.ErrUnhealthy
	}
	return nil
}
