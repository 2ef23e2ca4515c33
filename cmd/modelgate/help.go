package main

import (
	"slices"

	"github.com/alecthomas/kong"

	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/cmd/modelgate/serve"
	"github.com/modelgate/modelgate/internal/proc"
)

// helpWidth is how wide the text of help is at most.
const helpWidth = 120

// newParser makes the parser of the command line on a host.
func newParser(line *commands, host string, options ...kong.Option) (*kong.Kong, error) {
	return kong.New(line, append([]kong.Option{
		kong.Name("modelgate"),
		kong.Description("An Envoy-based gateway to generative models."),
		kong.Vars{"hostname": host, "domains": adminflags.DomainList(), "version": "modelgate " + proc.Version()},
		serve.Texts(),
		kong.ExplicitGroups(groups()),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true, FlagsLast: true,
			WrapUpperBound: helpWidth}),
		kong.Help(printHelp),
	}, options...)...)
}

// globalFlags is the group of the flags that every command has.
const globalFlags = "global"

// groups are what the tags of commands and flags name.
func groups() []kong.Group {
	return []kong.Group{
		{Key: "run", Title: "Run a gateway:"},
		{Key: "see", Title: "See what happens:"},
		{Key: "configure", Title: "Configure and try:"},
		{Key: "access", Title: "Give access:"},
		{Key: "jobs", Title: "Look after jobs:"},
		{Key: "records", Title: "Report, keep and delete:"},
		{Key: "line", Title: "Use the command line:"},
		{Key: adminflags.GatewayFlags, Title: "Flags that find the gateway:"},
		{Key: globalFlags, Title: "Flags of every command:"},
	}
}

// printHelp prints help, the flags that every command has last.
func printHelp(o kong.HelpOptions, ctx *kong.Context) error {
	flags, all := ctx.Model.Flags, groups()
	for _, f := range flags {
		f.Group = &all[slices.IndexFunc(all, func(g kong.Group) bool { return g.Key == globalFlags })]
	}
	of := ctx.Selected()
	if of == nil {
		return kong.DefaultHelpPrinter(o, ctx)
	}
	of.Group = nil // its commands are all in one
	of.Flags, ctx.Model.Flags = append(slices.Clip(of.Flags), flags...), nil
	defer func() { ctx.Model.Flags = flags }()
	return kong.DefaultHelpPrinter(o, ctx)
}

type helpCmd struct {
	Command []string `arg:"" optional:"" help:"Command, such as key create."`
}

// Run prints the help of a command.
func (c helpCmd) Run(k *kong.Kong) error {
	if _, err := k.Parse(append(c.Command, "--help")); err != nil {
		return admincli.Misused("%w", err)
	}
	return nil
}
