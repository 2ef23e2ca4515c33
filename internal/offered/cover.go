package offered

import (
	"maps"

	"github.com/modelgate/modelgate/internal/provider/forms"
)

// Names returns the names of the tools, as policies see them. A type with a version comes without it, too.
func (l *List) Names() []string {
	if l == nil {
		return nil
	}
	all := make([]string, 0, len(l.Tools))
	for i := range l.Tools {
		t := &l.Tools[i]
		all = append(all, t.Name)
		if plain := t.plain(); plain != t.Name {
			all = append(all, plain)
		}
	}
	return all
}

// Matches reports whether match accepts the name of the tool, or its type without a version.
func (t *Tool) Matches(match func(name string) bool) bool { return match(t.Name) || match(t.plain()) }

// plain returns the type of a vendor's tool without its version, or the name of another tool.
func (t *Tool) plain() string {
	if t.Kind != Server && t.Kind != MCP {
		return t.Name
	}
	return version.ReplaceAllString(t.Name, "")
}

// A Cover finds the tools that go out among those that were judged.
type Cover struct {
	functions map[string]bool // names, also as vendors get them
	others    map[string]bool // names and classes of everything else
}

// Cover returns a cover of those tools that keep accepts.
func (l *List) Cover(keep func(*Tool) bool) *Cover {
	c := &Cover{map[string]bool{}, map[string]bool{}}
	if l == nil {
		return c
	}
	for i := range l.Tools {
		t := &l.Tools[i]
		switch {
		case !keep(t):
		case t.Kind <= Custom:
			c.name(t.Name)
			c.name(t.Alias)
		default:
			c.others[t.Name] = true
			if t.Kind != Unknown && t.Class != "" {
				c.others[t.Class] = true
			}
		}
	}
	return c
}

// With adds tools to a cover.
func (c *Cover) With(tools []Tool) *Cover {
	more := (&List{Tools: tools}).Cover(func(*Tool) bool { return true })
	maps.Copy(c.functions, more.functions)
	maps.Copy(c.others, more.others)
	return c
}

// name adds the names that vendors may get for a function.
func (c *Cover) name(name string) {
	if name == "" {
		return
	}
	c.functions[name] = true
	for _, sent := range forms.SentTools(name) {
		c.functions[sent] = true
	}
}

// Has reports whether a tool that goes out is one of the cover.
func (c *Cover) Has(t *Tool) bool {
	switch {
	case t.Kind <= Custom:
		return c.functions[t.Name]
	case t.Kind == Unknown:
		return c.others[t.Name]
	}
	return c.others[t.Name] || t.Class != "" && c.others[t.Class]
}
