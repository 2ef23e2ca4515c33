package adminflags

import (
	"context"
	"errors"
	"regexp"
	"strings"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
)

// mostNames is how many names a command asks for at most. Further ids stay as they are.
const mostNames = 100

// Names returns what writes the names of keys and tokens in place of their ids in a text. An id stays if the object
// was deleted or has no name, if the caller may not read it, and where the name stands behind it in parentheses.
func Names(ctx context.Context, client *adminapi.Client) func(string) string {
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
			kind = TokenKind()
		}
		known[id] = id
		item, err := client.Get(ctx, kind, id)
		if o, ok := item.Object.(interface{ GetDisplayName() string }); ok && o.GetDisplayName() != "" {
			known[id] = o.GetDisplayName()
		}
		if _, answered := errors.AsType[*openai.Error](err); err != nil && !answered {
			away = true
		}
		return known[id]
	}
	return func(text string) string { return named(text, nameOf) }
}

// named writes names in place of ids.
func named(text string, nameOf func(id string) string) string {
	ids := regexp.MustCompile(`\b(key|adm)_[0-9A-Za-z]+\b( \()?`)
	return ids.ReplaceAllStringFunc(text, func(found string) string {
		if strings.HasSuffix(found, "(") {
			return found
		}
		return nameOf(found)
	})
}
