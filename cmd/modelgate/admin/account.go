package admin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/cmd/modelgate/console"
)

// AccountCmd is the command account.
type AccountCmd struct {
	Create   accountCreateCmd   `cmd:"" help:"Create an account of the dashboard."`
	List     accountListCmd     `cmd:"" help:"List the accounts."`
	Password accountPasswordCmd `cmd:"" help:"Set the password of an account."`
}

type passwordFlags struct {
	PasswordStdin bool `help:"Read the password from the first line of standard input, instead of prompting for it."`
}

type accountCreateCmd struct {
	adminflags.AdminFlags
	adminflags.ItemFlags
	passwordFlags
	Role  string `required:"" enum:"viewer,auditor,operator,admin,owner" help:"viewer: reads everything except secrets, accounts and admin tokens. auditor: reads these too. operator: also changes everything except accounts and admin tokens. admin: also manages accounts and tokens with no more rights than that. owner: does everything."`
	Label string `placeholder:"TEXT" help:"The person's name."`

	ReadBodies bool `help:"The person may see kept requests and answers. No role includes it."`

	Name string `arg:"" help:"Sign-in name, such as an e-mail address."`
}

// Help is shown below the flags' summary.
func (accountCreateCmd) Help() string {
	return "Example:\n  modelgate account create ann@example.com --role operator"
}

// Run creates an account.
func (c accountCreateCmd) Run(ctx context.Context, stdout io.Writer) error {
	password, err := c.password(ctx)
	if err != nil {
		return err
	}
	role := configv1.Role(configv1.Role_value[strings.ToUpper(c.Role)])
	a := &configv1.Account{Name: c.Name, DisplayName: c.Label, Role: role, Password: password, ReadBodies: c.ReadBodies}
	return createObject(ctx, stdout, c.AdminFlags, nil, c.ItemFlags, a)
}

type accountListCmd struct {
	adminflags.AdminFlags
	adminflags.ItemFlags
}

// Run lists the accounts.
func (c accountListCmd) Run(ctx context.Context, stdout io.Writer) error {
	kind := configv1.KindOf((*configv1.Account)(nil))
	return listObjects(ctx, stdout, c.AdminFlags, c.ItemFlags, kind, adminapi.ListOptions{})
}

type accountPasswordCmd struct {
	adminflags.AdminFlags
	passwordFlags
	Name string `arg:"" help:"Name of the account."`
}

// Run sets a password.
func (c accountPasswordCmd) Run(ctx context.Context, stdout io.Writer) error {
	password, err := c.password(ctx)
	if err != nil {
		return err
	}
	return change(stdout, c.AdminFlags, nil, func(client *adminapi.Client) (string, error) {
		return "Account " + c.Name + " has a new password", adminflags.Change(ctx, client, c.Name,
			func(a *configv1.Account) { a.Password, a.PasswordHash = password, "" })
	})
}

// password reads the password twice from the terminal, which does not show it, or once from the standard input.
func (f passwordFlags) password(ctx context.Context) (string, error) {
	input := bufio.NewReader(os.Stdin)
	if f.PasswordStdin {
		return passwordLine(input)
	}
	if !console.IsTerminal(os.Stdin) {
		return "", errors.New("there is no terminal for the password prompt: use --password-stdin")
	}
	if err := console.Echo(os.Stdin, false); err != nil {
		return "", fmt.Errorf("prompting for the password: %w (use --password-stdin)", err)
	}
	defer func() { _ = console.Echo(os.Stdin, true) }() // what could be turned off can be turned on
	first, err := ask(ctx, input, "Password: ")
	if err != nil {
		return "", err
	}
	again, err := ask(ctx, input, "Password again: ")
	if err != nil {
		return "", err
	}
	if first != again {
		return "", errors.New("the two passwords differ")
	}
	return first, nil
}

// ask goes to stderr: stdout may be read by a program. It ends with ctx, so that the terminal is left as it was; the
// read that nothing can interrupt ends with the process.
func ask(ctx context.Context, input *bufio.Reader, prompt string) (string, error) {
	fmt.Fprint(os.Stderr, prompt)
	defer fmt.Fprintln(os.Stderr)
	type result struct {
		line string
		err  error
	}
	read := make(chan result, 1)
	go func() {
		line, err := passwordLine(input)
		read <- result{line, err}
	}()
	select {
	case r := <-read:
		return r.line, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func passwordLine(input *bufio.Reader) (string, error) {
	line, err := input.ReadString('\n')
	line = strings.TrimRight(line, "\r\n")
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("reading the password: %w", err)
	}
	if line == "" {
		return "", errors.New("the password is empty")
	}
	return line, nil
}
