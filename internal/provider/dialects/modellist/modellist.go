// Package modellist lists the models of a vendor, as OpenAI does it and with what others do in another way.
//
// What a vendor lists is not what it serves. The most likely mistake is to take an id as it comes: it ends up in
// paths, in names of models and on pages.
package modellist

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/provider"
)

// Bounds of a list of models: how many there are, of how many pages, and how long an id is, in bytes.
const (
	maxModels  = 5000
	maxPages   = 100
	maxModelID = 256
)

// Models lists the models of a vendor of the dialect.
func Models(ctx context.Context, c *provider.Client) ([]*configv1.ListedModel, error) {
	return List{}.Models(ctx, c)
}

// A List says where and how a vendor lists its models. The zero value is OpenAI's way: {"data":[...]} at /models,
// whole.
type List struct {
	// Path is the path of the first page. Empty: /models.
	Path string
	// ID is the member that names a model. Empty: id.
	ID string
	// Prefix is what every name begins with that is no part of it.
	Prefix string
	// Keep, unless it is nil, reports whether a model is listed.
	Keep func(model gjson.Result) bool
	// Next, unless it is nil, returns the path of the page after one, or "".
	Next func(page gjson.Result) string
}

// Token returns a List's Next for pages that name the token of the next one, which is put after a path.
func Token(member, path string) func(gjson.Result) string {
	return func(page gjson.Result) string {
		if token := page.Get(member).Str; token != "" {
			return path + url.QueryEscape(token)
		}
		return ""
	}
}

// Lists reports whether a list has one of some words.
func Lists(list gjson.Result, words ...string) bool {
	return slices.ContainsFunc(list.Array(), func(r gjson.Result) bool { return slices.Contains(words, r.Str) })
}

// Models is a provider.Lister. The models are sorted by name, without duplicates and without invalid names. It also
// leaves out fine-tuned models, as far as their names tell: only the gateway knows their owners.
func (l List) Models(ctx context.Context, c *provider.Client) ([]*configv1.ListedModel, error) {
	found := map[string]*configv1.ListedModel{}
	path := cmp.Or(l.Path, "/models")
	for range maxPages {
		var body json.RawMessage
		if err := c.JSON(ctx, http.MethodGet, path, nil, &body); err != nil {
			return nil, err
		}
		page := gjson.ParseBytes(body)
		models, ok := modelsOf(page)
		if !ok {
			return nil, fmt.Errorf("GET %s: %w: it has no list of models", path, provider.ErrNotAnAnswer)
		}
		for _, m := range models {
			id := strings.TrimPrefix(m.Get(cmp.Or(l.ID, "id")).Str, l.Prefix)
			if len(found) < maxModels && isModelID(id) && !isTuned(id) && found[id] == nil && (l.Keep == nil || l.Keep(m)) {
				found[id] = &configv1.ListedModel{Id: id, Created: created(m), OwnedBy: ownedBy(m)}
			}
		}
		if l.Next == nil || len(found) == maxModels {
			break
		}
		if path = l.Next(page); path == "" {
			break
		}
	}
	list := make([]*configv1.ListedModel, 0, len(found))
	for _, m := range found {
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b *configv1.ListedModel) int { return strings.Compare(a.GetId(), b.GetId()) })
	return list, nil
}

// modelsOf returns the models of a page: data, or models, or all of it, as Together gives them. An empty list may be
// null.
func modelsOf(page gjson.Result) ([]gjson.Result, bool) {
	if page.IsArray() {
		return page.Array(), true
	}
	for _, name := range [...]string{"data", "models"} {
		if list := page.Get(name); list.IsArray() || list.Exists() && list.Type == gjson.Null {
			return list.Array(), true
		}
	}
	return nil, false
}

func isModelID(id string) bool {
	return id != "" && len(id) <= maxModelID && utf8.ValidString(id) && !strings.ContainsFunc(id, unicode.IsControl)
}

// isTuned knows OpenAI's and Mistral's names, ft:model:organization:suffix:id, and OpenAI's older ones,
// model:ft-organization.
func isTuned(id string) bool { return strings.HasPrefix(id, "ft:") || strings.Contains(id, ":ft-") }

// created returns when a model was made, in Unix seconds, or 0.
func created(m gjson.Result) int64 {
	for _, name := range [...]string{"created", "created_at"} {
		switch v := m.Get(name); v.Type {
		case gjson.Number:
			return max(0, v.Int())
		case gjson.String:
			if t, err := time.Parse(time.RFC3339, v.Str); err == nil {
				return max(0, t.Unix())
			}
		}
	}
	return 0
}

// ownedBy returns who a model is from, or "".
func ownedBy(m gjson.Result) string {
	for _, name := range [...]string{"owned_by", "organization"} {
		if v := m.Get(name).Str; isModelID(v) {
			return v
		}
	}
	return ""
}
