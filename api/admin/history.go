package admin

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// History returns the versions of an object, newest first.
func (c ObjectCalls) History(ctx context.Context, kind configv1.Kind, name string) ([]Version, error) {
	var all []Version
	for after := ""; ; {
		page, err := c.HistoryPage(ctx, kind, name, after)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if after = page.Next; after == "" {
			return all, nil
		}
	}
}

// HistoryPage returns a page of the versions of an object, newest first: that after the Next of another.
func (c ObjectCalls) HistoryPage(ctx context.Context, kind configv1.Kind, name, after string) (Page[Version], error) {
	var page Page[Version]
	path := "history/" + pathOf(kind, name)
	if after != "" {
		path += "?after=" + url.QueryEscape(after)
	}
	err := c.caller.call(ctx, request{method: http.MethodGet, path: path}, &page)
	return page, err
}

// Export returns the objects that files describe, of one revision.
func (c ObjectCalls) Export(ctx context.Context) (Export, error) {
	return get[Export](ctx, c.caller, "export")
}

// Rollback makes one object what it was at a revision, or with the zero Kind all that have a history.
func (c ObjectCalls) Rollback(ctx context.Context, kind configv1.Kind, name string, revision int64,
	dryRun bool) (ApplyAnswer, error) {
	var answer ApplyAnswer
	path := "rollback"
	if kind.Name != "" {
		path += "/" + pathOf(kind, name)
	}
	path += "?revision=" + strconv.FormatInt(revision, 10)
	if dryRun {
		path += "&dry_run=true"
	}
	err := c.caller.call(ctx, request{method: http.MethodPost, path: path}, &answer)
	return answer, err
}
