package manual

import (
	"strings"

	"github.com/alecthomas/kong"
)

// Markdown returns the commands with their own flags.
func Markdown(app *kong.Application) string {
	var b strings.Builder
	b.WriteString("# Commands\n\nAll commands with their own flags, as `modelgate help` shows them. This file is made from the " +
		"table of commands by\n`make generate`. [cli.md](cli.md) says how they are used, and which flags and exit codes all " +
		"have.\n")
	for _, s := range sections(app) {
		b.WriteString("\n## " + s.title + "\n")
		for _, c := range s.commands {
			command(&b, c)
		}
	}
	return b.String()
}

func command(b *strings.Builder, c *kong.Node) {
	b.WriteString("\n### modelgate " + c.Path() + "\n\n" + plain(c.Help) + "\n")
	b.WriteString("\n```text\nmodelgate " + usage(c) + "\n```\n")
	for _, p := range parts(c.Detail) {
		switch {
		case p.asIs:
			b.WriteString("\n```text\n" + p.text + "\n```\n")
		default:
			b.WriteString("\n" + plain(p.text) + "\n")
		}
	}
	if len(c.Positional)+len(own(c)) == 0 {
		return
	}
	b.WriteString("\n| | |\n|---|---|\n")
	for _, a := range c.Positional {
		b.WriteString("| `" + a.Summary() + "` | " + cell(kong.DefaultHelpValueFormatter(a)) + " |\n")
	}
	for _, f := range own(c) {
		b.WriteString("| `" + flag(f) + "` | " + cell(kong.DefaultHelpValueFormatter(f.Value)) + " |\n")
	}
}

// plain writes a text so that Markdown shows it as it is.
func plain(text string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "<", `\<`, "`", "\\`").Replace(text)
}

func cell(text string) string { return strings.ReplaceAll(plain(text), "|", `\|`) }
