// Package manual writes the manual from the command line's own table of commands, as a man page and as Markdown.
//
// It has no text about a command. What it says comes from the tags and the method Help of the command.
package manual

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// A section is a group of commands.
type section struct {
	title    string
	commands []*kong.Node // those that can be run
}

// sections returns the groups in the order of the table.
func sections(app *kong.Application) []section {
	var all []section
	for _, c := range app.Leaves(true) {
		var title string
		if g := c.ClosestGroup(); g != nil {
			title = strings.TrimSuffix(g.Title, ":")
		}
		i := slices.IndexFunc(all, func(s section) bool { return s.title == title })
		if i < 0 {
			i, all = len(all), append(all, section{title: title})
		}
		all[i].commands = append(all[i].commands, c)
	}
	return all
}

// own returns the flags of a command that are in no group.
func own(c *kong.Node) []*kong.Flag { return grouped(c, "") }

// grouped returns the flags of a command in a group.
func grouped(c *kong.Node, key string) []*kong.Flag {
	var all []*kong.Flag
	for _, f := range c.Flags {
		var of string
		if f.Group != nil {
			of = f.Group.Key
		}
		if of == key && !f.Hidden {
			all = append(all, f)
		}
	}
	return all
}

// usage returns how a command is called, such as "key get <id> [flags]".
func usage(c *kong.Node) string {
	words := []string{c.Path()}
	for _, f := range c.Flags {
		if f.Required {
			words = append(words, f.Summary())
		}
	}
	for _, a := range c.Positional {
		words = append(words, a.Summary())
	}
	return strings.Join(append(words, "[flags]"), " ")
}

// flag returns how a flag is written, such as "-o, --output=FORM".
func flag(f *kong.Flag) string {
	text := "--" + f.Name
	if f.Short != 0 {
		text = "-" + string(f.Short) + ", " + text
	}
	if !f.IsBool() {
		text += "=" + strings.Trim(f.FormatPlaceHolder(), `"`)
	}
	return text
}

// A part of a longer text is a paragraph, or lines that stay as they are.
type part struct {
	text string
	asIs bool
}

// parts cuts the longer text of a command: lines that begin with a space are examples.
func parts(detail string) []part {
	var all []part
	for line := range strings.SplitSeq(strings.TrimSpace(detail), "\n") {
		asIs := strings.HasPrefix(line, " ")
		switch last := len(all) - 1; {
		case line == "":
			all = append(all, part{})
			continue
		case last >= 0 && all[last].text != "" && all[last].asIs == asIs && asIs:
			all[last].text += "\n" + strings.TrimSpace(line)
		case last >= 0 && all[last].text != "" && all[last].asIs == asIs:
			all[last].text += " " + line
		default:
			all = append(all, part{strings.TrimSpace(line), asIs})
		}
	}
	return slices.DeleteFunc(all, func(p part) bool { return p.text == "" })
}
