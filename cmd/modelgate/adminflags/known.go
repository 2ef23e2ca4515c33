package adminflags

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
)

// Known returns the error for filters that name what is not there, by the names of the admin API's parameters. It
// is for answers without anything: what was deleted may still have some.
func Known(ctx context.Context, client *adminapi.Client, filters map[string]string) error {
	organization, project := filters["organization"], filters["project"]
	if strings.Contains(project, "/") {
		organization, _, _ = strings.Cut(project, "/")
	} else if project != "" && organization != "" {
		project = organization + "/" + project
	} else {
		project = "" // of any organization
	}
	for _, of := range []struct {
		object configv1.Object
		name   string
	}{
		{(*configv1.Organization)(nil), organization}, {(*configv1.Project)(nil), project},
		{(*configv1.Provider)(nil), filters["provider"]}, {(*configv1.Key)(nil), filters["key"]},
	} {
		kind := configv1.KindOf(of.object)
		if of.name != "" && !there(ctx, client, kind, of.name) {
			return admincli.Misused("there is no %s %q", kind.Name, of.name)
		}
	}
	if words := filters["key_name"]; words != "" {
		found, err := client.ListPage(ctx, configv1.KeyKind(), adminapi.ListOptions{Query: words, Limit: 1})
		if err == nil && len(found.Items) == 0 && !there(ctx, client, configv1.KeyKind(), words) {
			return admincli.Misused("there is no Key with %q in its name or id", words)
		}
	}
	if model := filters["model"]; model != "" && !mayServe(ctx, client, model) {
		return admincli.Misused("there is no model %q", model)
	}
	return nil
}

// there reports whether there may be an object.
func there(ctx context.Context, client *adminapi.Client, kind configv1.Kind, name string) bool {
	_, err := client.Get(ctx, kind, name)
	e, ok := errors.AsType[*openai.Error](err)
	return !ok || e.Status != http.StatusNotFound
}

// mayServe reports whether a model of the configuration, or a provider, may have a name.
func mayServe(ctx context.Context, client *adminapi.Client, model string) bool {
	provider, _, full := strings.Cut(model, "/")
	if there(ctx, client, configv1.KindOf((*configv1.Model)(nil)), model) ||
		full && there(ctx, client, configv1.KindOf((*configv1.Provider)(nil)), provider) {
		return true
	}
	items, err := client.List(ctx, configv1.KindOf((*configv1.Provider)(nil)))
	return err != nil || slices.ContainsFunc(items, func(i adminapi.Item) bool {
		p, ok := i.Object.(*configv1.Provider)
		return !ok || !p.GetFullNamesOnly() && slices.Contains(p.GetModels(), model)
	})
}
