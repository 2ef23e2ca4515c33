package hostile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/test/harness"
)

// admin calls the admin API and returns the status and the body of its answer.
func admin(t *testing.T, g *harness.Gateway, token, method, path, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, g.Admin+path, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := g.Client.Do(r)
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	b, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(b)
}

// TestRulesOfOneTenantDoNotStopOthers has a tenant with ten thousand words, and one with a pattern whose matches each
// look at the rest of the text, send 300 KB again and again and leave.
func TestRulesOfOneTenantDoNotStopOthers(t *testing.T) {
	t.Parallel()
	g := harness.Run(t, t.TempDir())
	words := make([]string, 10_000)
	for i := range words {
		words[i] = fmt.Sprintf("forbidden%05d", i)
	}
	_, wordy := g.CreateKey(t, "wordy", "")
	_, square := g.CreateKey(t, "square", "")
	_, other := g.CreateKey(t, "other", "")
	g.Apply(t,
		&configv1.Guardrail{Name: "words", Organization: "wordy", Rules: []*configv1.GuardRule{
			{Name: "w", Mode: configv1.GuardMode_BLOCK, Words: words}}},
		&configv1.Guardrail{Name: "square", Organization: "square", Rules: []*configv1.GuardRule{
			{Name: "s", Mode: configv1.GuardMode_MASK, Patterns: []string{`a(?:.*b)?`}}}})
	chat := func(ctx context.Context, key, text string) (status int, code string) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.URL+"/v1/chat/completions",
			strings.NewReader(`{"model":"echo/echo","max_tokens":1,"messages":[{"role":"user","content":"`+text+`"}]}`))
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+key)
		r.Header.Set("Content-Type", "application/json")
		answer, err := g.Client.Do(r)
		if err != nil {
			return 0, ""
		}
		defer func() { _ = answer.Body.Close() }()
		b, _ := io.ReadAll(answer.Body)
		return answer.StatusCode, gjson.GetBytes(b, "error.code").Str
	}
	lorem, aaa := strings.Repeat("lorem ipsum dolor ", 17_000), strings.Repeat("a", 300_000)
	harness.Eventually(t, "the guardrails in force", func() error {
		if _, code := chat(t.Context(), wordy, "forbidden00017"); code != "content_blocked" {
			return errors.New("not yet")
		}
		return nil
	})
	status, _ := chat(t.Context(), wordy, lorem)
	require.Equal(t, http.StatusOK, status)
	status, code := chat(t.Context(), wordy, lorem+"Forbidden09999")
	require.Equal(t, http.StatusBadRequest, status)
	require.Equal(t, "content_blocked", code)
	_, code = chat(t.Context(), square, aaa)
	require.Equal(t, "guardrail_work_exceeded", code)

	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			ctx, leave := context.WithTimeout(t.Context(), time.Duration(100+10*i)*time.Millisecond)
			defer leave()
			chat(ctx, square, aaa)
		})
	}
	for range 10 {
		status, _ := chat(t.Context(), other, "hello")
		require.Equal(t, http.StatusOK, status, "another tenant's request passes")
		status, _ = chat(t.Context(), wordy, lorem)
		require.Equal(t, http.StatusOK, status, "and has its turn with its own rules")
	}
	all.Wait()
	harness.Eventually(t, "the end of all work", func() error {
		_, metrics := admin(t, g, g.File(t, "admin-token"), http.MethodGet, "/metrics", "")
		for _, state := range []string{"running", "waiting"} {
			if !strings.Contains(metrics, `modelgate_guardrail_requests{state="`+state+`"} 0`+"\n") {
				return errors.New("some is " + state)
			}
		}
		return nil
	})
}

// TestExpressionsThatTakeLongAreRefused has a reader try, and a writer apply, what CEL would compile for seconds.
func TestExpressionsThatTakeLongAreRefused(t *testing.T) {
	t.Parallel()
	g := harness.Run(t, t.TempDir())
	root := g.File(t, "admin-token")
	status, made := admin(t, g, root, http.MethodPost, "/admin/v1/admintokens",
		`{"display_name":"reader","scopes":["config:read","usage:read"]}`)
	require.Equal(t, http.StatusCreated, status, made)
	reader := gjson.Get(made, "token").Str
	require.NotEmpty(t, reader)
	again := strings.Repeat
	for name, expression := range map[string]string{
		"487 bytes":       again("[", 240) + "1" + again("]", 240) + " == []",
		"4 KB":            again("[", 2040) + "1" + again("]", 2040) + " == []",
		"many of them":    again(again("[", 30)+"1"+again("]", 30)+" == [] || ", 50) + "true",
		"maps in loops":   "[1]" + again(".map(a, {{a: a}: {a: a}})", 20) + " == []",
		"a large pattern": `model.matches('` + again("(a{1,1000})", 300) + `')`,
	} {
		rules := fmt.Sprintf(`"name":"p","rules":[{"name":"r","deny":%q}]`, expression)
		status, said := admin(t, g, reader, http.MethodPost, "/admin/v1/policies/test", `[{"kind":"Policy",`+rules+`}]`)
		require.Equal(t, http.StatusBadRequest, status, "%s: %s", name, said)
		require.Contains(t, said, "must be an expression in CEL", name)
		for kind, object := range map[string]string{
			"policies": `{` + rules + `}`,
			"guardrails": fmt.Sprintf(`{"name":"p","when":%q,"rules":[{"name":"r","mode":"BLOCK","words":["x"]}]}`,
				expression),
			"ratelimits": fmt.Sprintf(`{"name":"p","when":%q,"domain":"requests","descriptors":[{"key":"key"}]}`,
				expression),
		} {
			status, said := admin(t, g, root, http.MethodPut, "/admin/v1/"+kind+"/p", object)
			require.Equal(t, http.StatusBadRequest, status, "%s in %s: %s", name, kind, said)
			require.Contains(t, said, "must be an expression in CEL", "%s in %s", name, kind)
		}
	}
}
