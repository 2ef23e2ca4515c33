// Package serve has the commands that are processes of a gateway: run, controlplane, extproc, jobsvc and envoy, and
// install and echo.
package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"go.uber.org/zap"

	"github.com/modelgate/modelgate/allinone"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	controlapp "github.com/modelgate/modelgate/controlplane/app"
	"github.com/modelgate/modelgate/internal/datadir"
)

// RunCmd is the command run.
type RunCmd struct {
	Data        string        `default:"data" env:"MODELGATE_DATA" placeholder:"DIR" help:"Folder for all data of the gateway (${default})."`
	Listen      string        `default:"127.0.0.1:8443" help:"Address of the gateway. Port 0: any free port."`
	Admin       string        `default:"127.0.0.1:8081" help:"${admin}"`
	Config      []string      `sep:"none" placeholder:"FILE" help:"YAML file of objects to apply at the start. May be given more than once."`
	Envoy       string        `placeholder:"PATH" help:"${binary}"`
	Grace       time.Duration `default:"30s" help:"${grace}"`
	Concurrency int           `default:"0" help:"${workers}"`

	Verbose bool `short:"v" help:"On a terminal, show more than a line for each request and what is wrong."`

	EtcdQuota int64 `default:"2147483648" placeholder:"BYTES" help:"Maximum size of the embedded etcd database in bytes. Above 8 GB, etcd starts slowly."`

	Limits      limitStoreFlags `embed:""`
	Answers     answerFlags     `embed:""`
	Jobs        jobFlags        `embed:""`
	Credentials credentialFlags `embed:""`
	Alerts      alertFlags      `embed:""`
	Trace       traceFlags      `embed:""`
	Held        heldFlags       `embed:""`
	Objects     kubernetesFlags `embed:""`
}

// Run runs the gateway until ctx ends.
func (c *RunCmd) Run(ctx context.Context, stdout io.Writer, log *zap.Logger) (err error) {
	if err := c.Trace.check(); err != nil {
		return err
	}
	data, err := datadir.Open(c.Data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, data.Close()) }()
	o, err := c.options(log)
	if err != nil {
		return err
	}
	o.Data = data
	o.Started = func(s allinone.Started) error { return announce(stdout, s) }
	return allinone.Run(ctx, o)
}

// options are what the flags say. What an operator can get wrong is found before anything runs.
func (c *RunCmd) options(log *zap.Logger) (o allinone.Options, err error) {
	o = allinone.Options{
		Admin: c.Admin, Envoy: c.Envoy, Concurrency: c.Concurrency, Grace: c.Grace, EtcdQuota: c.EtcdQuota,
		BodyBytes: c.Held.BodyBytes, Refused: configRefused, Jobs: c.Jobs.options(), Log: log,
		ControlPlane: controlapp.Options{Managers: c.Credentials.managers(log), AlertNetworks: c.Alerts.AlertNetwork,
			TraceURL: c.Trace.TraceURL},
	}
	if o.ControlPlane.Allowed, err = c.Credentials.allowed(); err != nil {
		return o, err
	}
	if o.ControlPlane.Vault, err = c.Credentials.Vault.follower(log); err != nil {
		return o, err
	}
	if o.ControlPlane.Kubernetes, err = c.Objects.source(); err != nil {
		return o, err
	}
	if o.Listen, err = gatewayAddress(c.Listen); err != nil {
		return o, err
	}
	if o.Objects, err = configObjects(c.Config); err != nil {
		return o, err
	}
	o.ExtProc, err = extProcOptions(c.Limits, c.Answers, log)
	o.ExtProc.Sessions = c.Held.Sessions
	return o, err
}

// announce says how the gateway is used.
func announce(stdout io.Writer, s allinone.Started) error {
	ca, key := admincli.ShellQuote(s.CA), admincli.ShellQuote(s.Key)
	_, err := fmt.Fprintf(stdout, `
Modelgate

  Base URL   %[1]s/v1
  Admin      %[2]s
  CA         %[3]s
  Key        %[4]s
%[5]s
Try it:

  curl --cacert %[3]s %[1]s/v1/chat/completions \
    -H "Authorization: Bearer $(cat %[4]s)" -H "Content-Type: application/json" \
    -d '{"model": "echo/echo", "messages": [{"role": "user", "content": "Hello"}]}'

ready
`, s.URL, s.Admin, ca, key, signIn(s.SignIn))
	return err
}

// signIn says how the first person signs in to the dashboard; nothing where somebody can.
func signIn(link string) string {
	if link == "" {
		return ""
	}
	return "  Sign in    " + link + "  (once)\n"
}
