// Command modelgate is the gateway: one binary whose subcommands are its processes, and the tools for operators.
//
// It has no logic of its own. A subcommand reads its flags, builds the parts and starts them. The parts are in their
// packages.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
	"go.uber.org/zap"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/cmd/modelgate/admin"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/cmd/modelgate/cmdline"
	"github.com/modelgate/modelgate/cmd/modelgate/inspect"
	"github.com/modelgate/modelgate/cmd/modelgate/offline"
	"github.com/modelgate/modelgate/cmd/modelgate/serve"
	"github.com/modelgate/modelgate/envoy/bootstrap"
	"github.com/modelgate/modelgate/internal/proc"
)

// Exit codes.
const (
	exitOK      = 0
	exitFailed  = 1
	exitUsage   = 2
	exitRefused = 3   // of a request that cannot be served, and of a change that is stored and not in force
	exitWaits   = 4   // of a change that waits for a second person's approval
	exitSignal  = 130 // as a shell says of what Ctrl-C ended
)

// commands is the command line. Help, the manual and completion are made from it.
type commands struct {
	Run          serve.RunCmd          `cmd:"" group:"run" help:"Run a complete gateway on this machine: etcd, control plane, ext_proc service and Envoy."`
	Controlplane serve.ControlplaneCmd `cmd:"" group:"run" help:"Run a control plane on an existing etcd."`
	Extproc      serve.ExtprocCmd      `cmd:"" group:"run" help:"Run the ext_proc service for an Envoy."`
	Jobsvc       serve.JobsvcCmd       `cmd:"" group:"run" help:"Run the job service: files, batches, fine-tuning and models."`
	Envoy        serve.EnvoyCmd        `cmd:"" group:"run" help:"Run or configure Envoy."`
	Install      serve.InstallCmd      `cmd:"" group:"run" help:"Copy this binary into a folder, as an init container does."`
	Echo         serve.EchoCmd         `cmd:"" group:"run" help:"Run the built-in echo provider on its own address."`

	Status    inspect.StatusCmd  `cmd:"" group:"see" help:"Show the state of a gateway: control plane, data plane, providers, ledger."`
	Doctor    inspect.DoctorCmd  `cmd:"" group:"see" help:"Find configuration problems and show how to fix them."`
	Check     inspect.CheckCmd   `cmd:"" group:"see" help:"Send a client request to a gateway and check the response."`
	Requests  admin.RequestsCmd  `cmd:"" group:"see" help:"Show the request log, or what happened to one request."`
	Budget    admin.BudgetCmd    `cmd:"" group:"see" help:"Show what is spent of budgets, and who will be over."`
	Cache     inspect.CacheCmd   `cmd:"" group:"see" help:"Show what response caches have saved."`
	Usage     admin.UsageCmd     `cmd:"" group:"see" help:"Show usage and cost."`
	Findings  admin.FindingsCmd  `cmd:"" group:"see" help:"Show what guardrails and policies have found."`
	Incidents admin.IncidentsCmd `cmd:"" group:"see" help:"Show what is wrong, since when, for whom, why, and how to undo it."`
	Alerts    admin.AlertsCmd    `cmd:"" group:"see" help:"Show alerts and their history, and test their receivers."`
	Audit     admin.AuditCmd     `cmd:"" group:"see" help:"Show the audit log of configuration changes, and check that it is whole."`
	Dashboard admin.DashboardCmd `cmd:"" group:"see" help:"Create a sign-in link for the dashboard."`

	Config    admin.ConfigCmd      `cmd:"" group:"configure" help:"Read and change the configuration of a running gateway."`
	Provider  inspect.ProviderCmd  `cmd:"" group:"configure" help:"Show how providers are, and try them."`
	Catalogue admin.CatalogueCmd   `cmd:"" group:"configure" help:"List the models that the gateway knows, with prices, and which providers serve them."`
	Guard     inspect.GuardCmd     `cmd:"" group:"configure" help:"Try guardrails on examples."`
	Policy    inspect.PolicyCmd    `cmd:"" group:"configure" help:"Try policies on past requests."`
	Explain   inspect.ExplainCmd   `cmd:"" group:"configure" help:"Show how the gateway would process a request, without calling a provider."`
	Translate offline.TranslateCmd `cmd:"" group:"configure" help:"Translate between OpenAI's API and a provider's, without a gateway."`
	Approval  admin.ApprovalCmd    `cmd:"" group:"configure" help:"List, approve and reject changes that wait for a second person."`

	Key     admin.KeyCmd     `cmd:"" group:"access" help:"Create, list, rotate and revoke keys."`
	Org     admin.OrgCmd     `cmd:"" group:"access" help:"Create and list organizations."`
	Project admin.ProjectCmd `cmd:"" group:"access" help:"Create and list projects."`
	Account admin.AccountCmd `cmd:"" group:"access" help:"Create accounts of the dashboard, and set their passwords."`
	Token   admin.TokenCmd   `cmd:"" group:"access" help:"Create, list and revoke tokens of the admin API."`
	Login   admin.LoginCmd   `cmd:"" group:"access" help:"Sign in to a gateway in the browser, as yourself. Other commands with the same --server then use the sign-in."`
	Logout  admin.LogoutCmd  `cmd:"" group:"access" help:"Forget the sign-in to a gateway, and end it."`

	Batch  admin.BatchCmd  `cmd:"" group:"jobs" help:"List batches, show why one waits or failed, and cancel it."`
	Quotas admin.QuotasCmd `cmd:"" group:"jobs" help:"Show how much of their job service quotas tenants use."`

	Report  admin.ReportCmd    `cmd:"" group:"records" help:"Report who could do what, what changed, and what was used in a period."`
	Ledger  offline.LedgerCmd  `cmd:"" group:"records" help:"Export the request log for analytics."`
	Bodies  admin.BodiesCmd    `cmd:"" group:"records" help:"Show and delete requests and answers that are kept."`
	Erase   admin.EraseCmd     `cmd:"" group:"records" help:"Erase what is recorded of a user. This cannot be undone."`
	Backup  offline.BackupCmd  `cmd:"" group:"records" help:"Save the configuration, keys, jobs and ledger to a file."`
	Restore offline.RestoreCmd `cmd:"" group:"records" help:"Restore a backup into an empty etcd and an empty ledger."`

	Completion completionCmd `cmd:"" group:"line" help:"Print a shell completion script."`
	Help       helpCmd       `cmd:"" group:"line" help:"Show the help of a command."`
	Man        manCmd        `cmd:"" group:"line" help:"Print the manual as a man page."`
	Version    versionCmd    `cmd:"" group:"line" help:"Print the version, the commit, and what the program works with."`

	Log         logFlags         `embed:"" prefix:"log-"`
	ShowVersion kong.VersionFlag `name:"version" help:"Print the version."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends what does not heed the first
	os.Exit(execute(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// execute runs one command line and returns the exit code. What the command has to say goes to stdout; logs, and the
// error that it ends with, go to stderr.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	exit := -1
	var line commands
	var command *kong.Context
	parser, err := newParser(&line, proc.Hostname(),
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { exit = code }),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.BindTo(stdout, (*io.Writer)(nil)),
		kong.BindSingletonProvider(func() (*zap.Logger, error) { return line.ownLogger(stderr, command.Command()) }),
	)
	if err != nil {
		return fail(stderr, fmt.Errorf("building the command line: %w", err), exitFailed)
	}
	if completed(ctx, parser) {
		return exitOK
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	command, err = parser.Parse(args)
	if exit >= 0 { // --help
		return exit
	}
	if err == nil {
		err = givenEmpty(command)
	}
	if err != nil {
		return fail(stderr, fmt.Errorf("%w (try --help)", err), exitUsage)
	}
	err = command.Run()
	switch {
	case err == nil, exit == exitOK: // completion has its own way to end
		return exitOK
	case errors.Is(err, cmdline.ErrRefused):
		return exitRefused // stdout has the client's error
	case errors.Is(err, adminflags.ErrNotInForce):
		return fail(stderr, err, exitRefused)
	case waits(err):
		return fail(stderr, err, exitWaits)
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return fail(stderr, errors.New("interrupted"), exitSignal)
	}
	if misused(err) {
		return fail(stderr, fmt.Errorf("%w (try --help)", err), exitUsage)
	}
	return fail(stderr, ofAnother(err), exitFailed)
}

// misused reports whether the command line is wrong, which was found only when the command ran.
func misused(err error) bool {
	_, line := errors.AsType[admincli.Misuse](err)
	_, address := errors.AsType[bootstrap.AddressError](err)
	return line || address
}

// waits reports whether a change is not made because it waits for approval.
func waits(err error) bool {
	_, ok := errors.AsType[*adminapi.WaitingError](err)
	return ok
}

// ofAnother adds what helps where a file may not be opened.
func ofAnother(err error) error {
	var denied *fs.PathError
	if !errors.As(err, &denied) || !errors.Is(denied, fs.ErrPermission) {
		return err
	}
	return fmt.Errorf("%w: give %s to the user that runs modelgate (uid %d)", err, denied.Path, os.Getuid())
}

func fail(stderr io.Writer, err error, code int) int {
	// There is nowhere left to report that stderr cannot be written.
	_, _ = fmt.Fprintf(stderr, "modelgate: %v\n", err)
	return code
}
