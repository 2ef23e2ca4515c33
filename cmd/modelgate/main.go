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
	"runtime/debug"
	"syscall"

	"github.com/alecthomas/kong"
	"go.uber.org/zap"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
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

// commands is the command line.
type commands struct {
	Run          runCmd          `cmd:"" help:"Run a complete gateway on this machine: etcd, control plane, ext_proc service and Envoy."`
	Controlplane controlplaneCmd `cmd:"" help:"Run a control plane on an existing etcd."`
	Extproc      extprocCmd      `cmd:"" help:"Run the ext_proc service for an Envoy."`
	Jobsvc       jobsvcCmd       `cmd:"" help:"Run the job service: files, batches, fine-tuning and models."`
	Envoy        envoyCmd        `cmd:"" help:"Run or configure Envoy."`
	Install      installCmd      `cmd:"" help:"Copy this binary into a folder, as an init container does."`
	Echo         echoCmd         `cmd:"" help:"Run the built-in echo provider on its own address."`
	Config       configCmd       `cmd:"" help:"Read and change the configuration of a running gateway."`
	Key          keyCmd          `cmd:"" help:"Create, list, rotate and revoke keys."`
	Org          orgCmd          `cmd:"" help:"Create and list organizations."`
	Project      projectCmd      `cmd:"" help:"Create and list projects."`
	Account      accountCmd      `cmd:"" help:"Create accounts of the dashboard, and set their passwords."`
	Login        loginCmd        `cmd:"" help:"Sign in to a gateway in the browser, as yourself. Other commands with the same --server then use the sign-in."`
	Logout       logoutCmd       `cmd:"" help:"Forget the sign-in to a gateway, and end it."`
	Token        tokenCmd        `cmd:"" help:"Create, list and revoke tokens of the admin API."`
	Dashboard    dashboardCmd    `cmd:"" help:"Create a sign-in link for the dashboard."`
	Status       statusCmd       `cmd:"" help:"Show the state of a gateway: control plane, data plane, providers, ledger."`
	Check        checkCmd        `cmd:"" help:"Send a client request to a gateway and check the response."`
	Doctor       doctorCmd       `cmd:"" help:"Find configuration problems and show how to fix them."`
	Explain      explainCmd      `cmd:"" help:"Show how the gateway would process a request, without calling a provider."`
	Quotas       quotasCmd       `cmd:"" help:"Show how much of their job service quotas tenants use."`
	Usage        usageCmd        `cmd:"" help:"Show usage and cost."`
	Requests     requestsCmd     `cmd:"" help:"Show the request log, or what happened to one request."`
	Findings     findingsCmd     `cmd:"" help:"Show what guardrails and policies have found."`
	Report       reportCmd       `cmd:"" help:"Report who could do what, what changed, and what was used in a period."`
	Erase        eraseCmd        `cmd:"" help:"Erase what is recorded of a user. This cannot be undone."`
	Bodies       bodiesCmd       `cmd:"" help:"Show and delete requests and answers that are kept."`
	Approval     approvalCmd     `cmd:"" help:"List, approve and reject changes that wait for a second person."`
	Alerts       alertsCmd       `cmd:"" help:"Show alerts and their history, and test their receivers."`
	Audit        auditCmd        `cmd:"" help:"Show the audit log of configuration changes, and check that it is whole."`
	Backup       backupCmd       `cmd:"" help:"Save the configuration, keys, jobs and ledger to a file."`
	Restore      restoreCmd      `cmd:"" help:"Restore a backup into an empty etcd and an empty ledger."`
	Guard        guardCmd        `cmd:"" help:"Try guardrails on examples."`
	Provider     providerCmd     `cmd:"" help:"Try providers."`
	Policy       policyCmd       `cmd:"" help:"Try policies on past requests."`
	Translate    translateCmd    `cmd:"" help:"Translate between OpenAI's API and a provider's, without a gateway."`
	Completion   completionCmd   `cmd:"" help:"Print a shell completion script."`
	Version      versionCmd      `cmd:"" help:"Print the version."`

	Log logFlags `embed:"" prefix:"log-"`
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
	parser, err := kong.New(&line,
		kong.Name("modelgate"),
		kong.Description("An Envoy-based gateway to generative models."),
		kong.Writers(stdout, stderr),
		kong.Vars{"hostname": hostname(), "domains": domainList()},
		kong.Exit(func(code int) { exit = code }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.BindTo(stdout, (*io.Writer)(nil)),
		kong.BindSingletonProvider(func() (*zap.Logger, error) { return line.Log.logger(stderr) }),
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
	command, err := parser.Parse(args)
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
	case errors.Is(err, errRefused):
		return exitRefused // stdout has the client's error
	case errors.Is(err, errNotInForce):
		return fail(stderr, err, exitRefused)
	case waits(err):
		return fail(stderr, err, exitWaits)
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return fail(stderr, errors.New("interrupted"), exitSignal)
	}
	if _, ok := errors.AsType[admincli.Misuse](err); ok {
		return fail(stderr, fmt.Errorf("%w (try --help)", err), exitUsage)
	}
	return fail(stderr, ofAnother(err), exitFailed)
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

type versionCmd struct{}

// Run prints the version of the module, or the commit that was built.
func (versionCmd) Run(stdout io.Writer) error {
	_, err := fmt.Fprintln(stdout, "modelgate", version())
	return err
}

func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(unknown)"
	}
	return info.Main.Version
}

// hostname names this machine in the control plane where the operator does not.
func hostname() string {
	name, err := os.Hostname()
	if err != nil || name == "" {
		return "modelgate"
	}
	return name
}
