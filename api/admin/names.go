package admin

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"strings"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
)

// Title returns what people call an object: its display name, or its name.
func (i Item) Title() string { return cmp.Or(configv1.DisplayName(i.Object), i.Name) }

// mostNames is how many names [Names] asks for at most. Further ids stay as they are.
const mostNames = 100

// Names returns what writes the names of keys and tokens in place of their ids in a text. An id stays if the object
// was deleted or has no name, if the caller may not read it, and where the name stands behind it in parentheses.
func Names(ctx context.Context, client *Client) func(string) string {
	known, away := map[string]string{}, false
	nameOf := func(id string) string {
		if name, ok := known[id]; ok {
			return name
		}
		if away || len(known) >= mostNames {
			return id
		}
		kind := configv1.KeyKind()
		if strings.HasPrefix(id, "adm_") {
			kind = configv1.KindOf((*configv1.AdminToken)(nil))
		}
		item, err := client.Get(ctx, kind, id)
		known[id] = cmp.Or(item.Title(), id)
		if _, answered := errors.AsType[*openai.Error](err); err != nil && !answered {
			away = true
		}
		return known[id]
	}
	return Named(nameOf)
}

// Named returns what writes names in place of the ids of keys and tokens in a text.
func Named(nameOf func(id string) string) func(string) string {
	ids := namedIDs()
	return func(text string) string { return named(ids, text, nameOf) }
}

// namedIDs matches the ids of objects that have names for people.
func namedIDs() *regexp.Regexp { return regexp.MustCompile(`\b(key|adm)_[0-9A-Za-z]+\b( \()?`) }

// named writes names in place of ids.
func named(ids *regexp.Regexp, text string, nameOf func(id string) string) string {
	return ids.ReplaceAllStringFunc(text, func(found string) string {
		if strings.HasSuffix(found, "(") {
			return found
		}
		return nameOf(found)
	})
}
