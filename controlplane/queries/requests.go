package queries

import (
	"context"
	"strings"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/authz"
)

const (
	// maxNamed is how many keys the words of a search may name.
	maxNamed = 100
	// noKey is the id of no key.
	noKey = "-"
)

// Search completes the options of a search as a client gives them: the names of keys become their ids.
func (q *Service) Search(ctx context.Context, asked adminapi.ListOptions) (adminapi.ListOptions, error) {
	if id := asked.Filters["request_id"]; id != "" {
		asked.Query = id
	}
	words := strings.Fields(strings.ToLower(asked.Filters["key_name"]))
	for _, read := range []string{"format", "request_id", "key_name"} {
		delete(asked.Filters, read)
	}
	if asked.Filters["keys"] != "" {
		return asked, openai.CodeUnknownParameter.On("keys", "Unknown parameter: 'keys'.")
	}
	if len(words) == 0 {
		return asked, nil
	}
	var ids []string
	caller, _ := authz.PrincipalOf(ctx)
	for id := range q.options.Config.KeysNamed(words, caller) {
		if ids = append(ids, id); len(ids) > maxNamed {
			return asked, openai.CodeInvalidValue.On("key_name",
				"More than %d keys match 'key_name'. Give more of the name.", maxNamed)
		}
	}
	switch {
	case len(ids) == 0:
		asked.Filters["key"] = noKey
	case len(ids) == 1 && asked.Filters["key"] == "":
		asked.Filters["key"] = ids[0] // the column has an index
	default:
		asked.Filters["keys"] = strings.Join(ids, ",")
	}
	return asked, nil
}

// NameKeys adds the names that the keys of exchanges have now.
func (q *Service) NameKeys(all []adminapi.Exchange) {
	for i := range all {
		q.NameKey(&all[i])
	}
}

// NameKey adds the name that the key of an exchange has now, or that the key is gone, and why it was not served.
func (q *Service) NameKey(e *adminapi.Exchange) {
	revision, keys := q.options.Plane.Keys()
	key, ok := keys[e.Key]
	if ok {
		e.KeyName = configv1.DisplayName(key)
	}
	e.KeyDeleted = !ok && e.Key != "" && revision > 0
	e.Reason = e.Explain().Short
}

// KeyName returns the name of a key for people; empty: it has none, or is not known.
func (q *Service) KeyName(id string) string {
	_, keys := q.options.Plane.Keys()
	if key, ok := keys[id]; ok {
		return configv1.DisplayName(key)
	}
	return ""
}
