package modellist

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/openaicompat"
)

// at returns a client of a vendor that handle plays.
func at(handle http.HandlerFunc) *provider.Client {
	return &provider.Client{DecodeError: openaicompat.DecodeError, Send: func(r *http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		handle(w, r)
		return w.Result(), nil
	}}
}

func answering(body string) *provider.Client {
	return at(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, body) })
}

func ids(t *testing.T, l List, c *provider.Client) []string {
	t.Helper()
	list, err := l.Models(t.Context(), c)
	require.NoError(t, err)
	names := []string{}
	for _, m := range list {
		names = append(names, m.GetId())
	}
	return names
}

func TestModelsAreListedByName(t *testing.T) {
	list, err := Models(t.Context(), at(func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "/models", r.URL.Path)
		_, _ = fmt.Fprint(w, `{"object":"list","data":[
			{"id":"gpt-5","object":"model","created":1754425777,"owned_by":"system"},
			{"id":"gpt-4o","object":"model","created":1715367049.5,"owned_by":7},
			{"id":"claude","created_at":"2025-02-19T00:00:00Z","organization":"Anthropic"},
			{"id":"bare"}]}`)
	}))
	require.NoError(t, err)
	require.Len(t, list, 4)
	require.Equal(t, "bare", list[0].GetId())
	require.Equal(t, "claude", list[1].GetId())
	require.Equal(t, int64(1739923200), list[1].GetCreated())
	require.Equal(t, "Anthropic", list[1].GetOwnedBy())
	require.Equal(t, int64(1715367049), list[2].GetCreated())
	require.Empty(t, list[2].GetOwnedBy())
	require.Equal(t, "system", list[3].GetOwnedBy())
}

func TestWhatCannotBeTheNameOfAModelIsLeftOut(t *testing.T) {
	long := strings.Repeat("x", maxModelID)
	require.Equal(t, []string{"a", "b", long}, ids(t, List{}, answering(`{"data":[
		{"id":"b"},{"id":"a"},{"id":"b","created":9},{"id":""},{"id":null},{"id":5},{},null,[],"c",
		{"id":"a\nb"},{"id":"a\u0085b"},{"id":"`+long+`"},{"id":"`+long+`x"}]}`)))
}

func TestFineTunedModelsAreNotEverybodys(t *testing.T) {
	require.Equal(t, []string{"gpt-4o-mini"}, ids(t, List{}, answering(`{"data":[{"id":"gpt-4o-mini"},
		{"id":"ft:gpt-4o-mini-2024-07-18:acme::AbCd"},{"id":"ft:gpt-4o:acme:x:1:ckpt-step-100"},{"id":"curie:ft-acme-2023-01-02"}]}`)))
}

func TestAnEmptyListIsAList(t *testing.T) {
	for _, body := range []string{`{"data":[]}`, `{"data":null}`, `[]`, `{"models":[]}`} {
		require.Empty(t, ids(t, List{}, answering(body)), body)
	}
}

func TestWhatIsNoListOfModelsIsAnError(t *testing.T) {
	for _, body := range []string{``, `{}`, `"x"`, `{"data":{}}`, `<html>`, `{"data":[{"id":"a"}`} {
		_, err := Models(t.Context(), answering(body))
		require.ErrorIs(t, err, provider.ErrNotAnAnswer, body)
	}
	_, err := Models(t.Context(),
		at(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	var refused *openai.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, http.StatusForbidden, refused.Status)
}

func TestPagesAreFollowedWithinBounds(t *testing.T) {
	asked := 0
	endless := at(func(w http.ResponseWriter, r *http.Request) {
		asked++
		require.Equal(t, asked == 1, r.URL.RawQuery == "")
		_, _ = fmt.Fprintf(w, `{"data":[{"id":"m%03d"}],"next":"?page=%d"}`, asked, asked+1)
	})
	next := List{Next: func(page gjson.Result) string { return "/models" + page.Get("next").Str }}
	require.Len(t, ids(t, next, endless), maxPages)
	require.Equal(t, maxPages, asked)

	asked = 0
	many := at(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		var b strings.Builder
		for i := range 3000 {
			_, _ = fmt.Fprintf(&b, `{"id":"m-%d-%d"},`, asked, i)
		}
		_, _ = fmt.Fprintf(w, `{"data":[%s null],"next":"?"}`, b.String())
	})
	require.Len(t, ids(t, next, many), maxModels)
	require.Equal(t, 2, asked)
}
