package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/cmd/modelgate/manual"
)

//go:generate go run . man --folder ../../docs

type manCmd struct {
	Folder string `hidden:"" placeholder:"DIR" help:"Write modelgate.1 and commands.md into this folder."`
}

// Help is shown below the flags' summary.
func (manCmd) Help() string { return "Example:\n  modelgate man | man -l -" }

// Run prints the man page, or writes the manual into a folder.
func (c manCmd) Run(stdout io.Writer) error {
	page, markdown, err := theManual()
	if err != nil {
		return err
	}
	if c.Folder == "" {
		_, err = io.WriteString(stdout, page)
		return err
	}
	for name, text := range map[string]string{"modelgate.1": page, "commands.md": markdown} {
		err = errors.Join(err, os.WriteFile(filepath.Join(c.Folder, name), []byte(text), 0o644)) //nolint:gosec // for all
	}
	return err
}

// theManual returns the man page and the commands as Markdown. They are the same on every machine.
func theManual() (page, markdown string, err error) {
	parser, err := newParser(&commands{}, "the host's name")
	if err != nil {
		return "", "", err
	}
	app := parser.Model
	return manual.Man(app, adminflags.GatewayFlags, exits()), manual.Markdown(app), nil
}

// exits returns what the exit codes mean.
func exits() []string {
	return []string{
		exitOK:      "Success.",
		exitFailed:  "Failure. Or: config diff found a difference, status or doctor found a problem, or audit verify found that the log is not what was written.",
		exitUsage:   "The command line is wrong.",
		exitRefused: "explain or translate: the gateway would refuse the request. A change: it is stored, but it has no effect, or some processes do not use it yet.",
		exitWaits:   "A change is not made: it waits for approval by a second person.",
		exitSignal:  "Interrupted.",
	}
}
