package api_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
)

// An awaited data plane takes what it is told to.
type awaited struct {
	behind    []string
	revisions []int64
	left      []time.Duration
}

func (a *awaited) await(ctx context.Context, revision int64) []string {
	until, _ := ctx.Deadline()
	a.revisions, a.left = append(a.revisions, revision), append(a.left, time.Until(until))
	return a.behind
}

func TestChangesOfKeysAreWaitedFor(t *testing.T) {
	b := newBench(t)
	plane := &awaited{}
	b.config.Await = plane.await
	made, err := b.client.CreateKey(t.Context(), adminapi.KeyRequest{DisplayName: "n"})
	require.NoError(t, err)
	path := "/admin/v1/keys/" + made.ID
	key := b.do(t, "GET", path, "").body
	require.Equal(t, 200, b.do(t, "POST", path+"/rotate", "").status)
	require.Equal(t, 200, b.do(t, "PUT", path, key[:len(key)-1]+`,"disabled":true}`).status)
	require.Equal(t, 200, b.do(t, "POST", "/admin/v1/apply", key[:len(key)-1]+`,"disabled":false}`).status)
	plane.behind = []string{"extproc a", "envoy b"}
	deleted := b.do(t, "DELETE", path+"?wait=30", "")
	require.Equal(t, 204, deleted.status)
	require.Equal(t, "extproc a, envoy b", deleted.header.Get("X-Modelgate-Pending"))
	require.Len(t, plane.revisions, 5)
	require.IsIncreasing(t, plane.revisions, "each waits for its own")
	for i, want := range []time.Duration{10 * time.Second, 10 * time.Second, 10 * time.Second, 10 * time.Second,
		30 * time.Second} {
		require.InDelta(t, want, plane.left[i], float64(5*time.Second))
	}
}

func TestOtherChangesAreWaitedForWhereTheRequestSays(t *testing.T) {
	b := newBench(t)
	plane := &awaited{behind: []string{"extproc a"}}
	b.config.Await = plane.await
	for path, body := range map[string]string{
		"/admin/v1/providers":                 `{"name":"now","vendor":"echo"}`,
		"/admin/v1/keys?wait=0":               `{"display_name":"n"}`,
		"/admin/v1/keys?dry_run=true":         `{"display_name":"n"}`,
		"/admin/v1/admintokens?wait=5":        `{"display_name":"n","scopes":["keys:read"]}`,
		"/admin/v1/apply?wait=5&dry_run=true": `{"kind":"Provider","name":"dry","vendor":"echo"}`,
		"/admin/v1/accounts?wait=5":           `{"name":"ann","role":"OWNER","password":"correct horse battery"}`,
	} {
		a := b.do(t, "POST", path, body)
		require.Less(t, a.status, 300, a.body)
		require.Empty(t, a.header.Get("X-Modelgate-Pending"), path)
	}
	require.Empty(t, plane.revisions)
	a := b.do(t, "POST", "/admin/v1/providers?wait=1", `{"name":"waited","vendor":"echo"}`)
	require.Equal(t, 201, a.status, a.body)
	require.Equal(t, "extproc a", a.header.Get("X-Modelgate-Pending"))
	again := b.do(t, "PUT", "/admin/v1/providers/waited?wait=1", `{"name":"waited","vendor":"echo"}`)
	require.Equal(t, "extproc a", again.header.Get("X-Modelgate-Pending"), "it is stored already, and still not in force")
	b.do(t, "POST", "/admin/v1/apply?wait=1", `{"kind":"Provider","name":"waited","vendor":"echo"}`)
	require.Len(t, plane.revisions, 3)
	require.Equal(t, plane.revisions[0], plane.revisions[1], "nothing was changed")
	require.Equal(t, plane.revisions[0], plane.revisions[2], "nothing was changed")
	for _, wrong := range []string{"x", "-1", "61", "1&wait=2"} {
		requireError(t, b.do(t, "POST", "/admin/v1/providers?wait="+wrong, `{"name":"wrong","vendor":"echo"}`), 400,
			"invalid_value", "between 0 and 60")
	}
}

func TestApplySaysWhatHasNoEffect(t *testing.T) {
	b := newBench(t)
	b.status["Provider a"] = "refused by the data plane: no"
	const docs = `[{"kind":"Provider","name":"a","vendor":"echo"},{"kind":"Provider","name":"b","vendor":"echo"}]`
	require.NotContains(t, b.do(t, "POST", "/admin/v1/apply?dry_run=true", docs).body, "refused")
	for range 2 { // also where it changes nothing
		a := b.do(t, "POST", "/admin/v1/apply?wait=1", docs)
		require.Contains(t, a.body, `"error":"refused by the data plane: no"`)
		require.Equal(t, 1, strings.Count(a.body, "refused by"), "the other has effect")
	}
}
