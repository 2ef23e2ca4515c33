package anthropic

import (
	"context"
	"net/http"
	"net/url"

	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/modellist"
)

// models lists them, a thousand on a page: https://platform.claude.com/docs/en/api/models/list.
func models(ctx context.Context, c *provider.Client) ([]*configv1.ListedModel, error) {
	const first = "/models?limit=1000"
	list := modellist.List{Path: first, Next: func(page gjson.Result) string {
		if last := page.Get("last_id").Str; page.Get("has_more").Bool() && last != "" {
			return first + "&after_id=" + url.QueryEscape(last)
		}
		return ""
	}}
	return list.Models(ctx, versioned(c, ""))
}

// versioned returns a client that names the API's version with every request. It also names betas, separated by
// commas, if there are any.
func versioned(c *provider.Client, betas string) *provider.Client {
	with := *c
	with.Send = func(r *http.Request) (*http.Response, error) {
		r.Header.Set("Anthropic-Version", version)
		if betas != "" {
			r.Header.Set("Anthropic-Beta", betas)
		}
		return c.Send(r)
	}
	return &with
}
