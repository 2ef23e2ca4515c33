package manual

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// Man returns the man page, in the macros of man(7). gateway is the group of the flags that find the gateway, which
// stand in the page once. exits are the exit codes with their meaning.
func Man(app *kong.Application, gateway string, exits []string) string {
	m := &man{}
	m.line(".\\\" Made from the table of commands by make generate.")
	m.line(".TH MODELGATE 1 \"\" Modelgate \"Modelgate Manual\"")
	m.line(".SH NAME\nmodelgate \\- " + roff(strings.TrimSuffix(lowered(app.Help), ".")))
	m.line(".SH SYNOPSIS\n.B modelgate\n.I command\n.RI [ flags ]")
	m.line(".SH DESCRIPTION\nEvery command has help:\n.B modelgate help\n.IR command .")
	m.line(".SH COMMANDS")
	var shared []*kong.Flag
	for _, s := range sections(app) {
		m.line(".SS " + roff(s.title))
		for _, c := range s.commands {
			m.command(c)
			if all := grouped(c, gateway); len(all) > len(shared) {
				shared = all
			}
		}
	}
	m.line(".SH FLAGS THAT FIND THE GATEWAY")
	m.flags(shared)
	m.line(".SH FLAGS OF EVERY COMMAND")
	m.flags(app.Flags)
	m.line(".SH EXIT STATUS")
	for code, means := range exits {
		if means != "" {
			m.line(fmt.Sprintf(".TP\n.B %d\n%s", code, roff(means)))
		}
	}
	return m.String()
}

type man struct{ strings.Builder }

func (m *man) line(text string) { m.WriteString(text + "\n") }

func (m *man) command(c *kong.Node) {
	m.line(".TP\n.B modelgate " + roff(usage(c)))
	m.line(roff(c.Help))
	for _, p := range parts(c.Detail) {
		if p.asIs {
			m.line(".IP\n.nf\n" + roff(p.text) + "\n.fi")
		} else {
			m.line(".IP\n" + roff(p.text))
		}
	}
	if len(c.Positional)+len(own(c)) == 0 {
		return
	}
	m.line(".RS")
	for _, a := range c.Positional {
		m.line(".TP\n.I " + roff(a.Summary()) + "\n" + roff(kong.DefaultHelpValueFormatter(a)))
	}
	m.flags(own(c))
	m.line(".RE")
}

func (m *man) flags(all []*kong.Flag) {
	for _, f := range all {
		m.line(".TP\n.B " + roff(flag(f)) + "\n" + roff(kong.DefaultHelpValueFormatter(f.Value)))
	}
}

// roff writes a text so that troff prints it.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

func lowered(text string) string { return strings.ToLower(text[:1]) + text[1:] }
