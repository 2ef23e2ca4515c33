package admin_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
)

// answering returns a client of a server that gives one answer, and what it was last asked.
func answering(t *testing.T, status int, body string) (*admin.Client, *http.Request) {
	t.Helper()
	asked := new(http.Request)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = *r
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	return admin.NewClient(server.URL+"/", "token", server.Client()), asked
}

func TestClientSendsTokenPathAndPrecondition(t *testing.T) {
	client, asked := answering(t, 200, `{"kind":"Model","name":"a b/c","status":{"revision":8}}`)
	item, err := client.Put(t.Context(), &configv1.Model{Name: "a b/c"}, 7)
	require.NoError(t, err)
	require.Equal(t, "Bearer token", asked.Header.Get("Authorization"))
	require.Equal(t, `"7"`, asked.Header.Get("If-Match"))
	require.Equal(t, "/admin/v1/models/a%20b/c", asked.RequestURI)
	require.EqualValues(t, 8, item.Status.Revision)
}

func TestClientErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		status  int
		body    string
		code    string
		message string
	}{
		"of the API": {400,
			`{"error":{"message":"Bad.","type":"invalid_request_error","param":"name","code":"invalid_object"}}`,
			"invalid_object", "Bad."},
		"with null": {404, `{"error":{"message":"Gone.","type":"invalid_request_error","param":null,"code":null}}`,
			"", "Gone."},
		"of another thing": {502, "<html>", "", "is this its address?"},
	} {
		t.Run(name, func(t *testing.T) {
			client, _ := answering(t, tc.status, tc.body)
			_, err := client.List(t.Context(), configv1.KindOf((*configv1.Key)(nil)))
			e, ok := errors.AsType[*openai.Error](err)
			require.True(t, ok)
			require.Equal(t, tc.status, e.Status)
			require.Equal(t, tc.code, string(e.Code))
			require.Contains(t, e.Message, tc.message)
		})
	}
	client, _ := answering(t, 200, "<html>")
	_, err := client.List(t.Context(), configv1.KindOf((*configv1.Key)(nil)))
	require.ErrorContains(t, err, "read the admin API's answer")
	client, _ = answering(t, 200, `{"items":[{"kind":"Novelty","name":"a"}]}`)
	_, err = client.List(t.Context(), configv1.KindOf((*configv1.Key)(nil)))
	require.ErrorContains(t, err, "newer than this program")
}

func TestClientFollowsNoRedirect(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		var asked []string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.Method)
			if r.URL.Path != "/there" {
				http.Redirect(w, r, "/there", status)
			}
		}))
		err := admin.NewClient(server.URL, "token", server.Client()).Delete(t.Context(),
			configv1.KindOf((*configv1.Key)(nil)), "key_a")
		server.Close()
		require.ErrorContains(t, err, "a redirect to "+server.URL+", which is not followed")
		require.Equal(t, []string{"DELETE"}, asked)
	}
}

func TestItemSurvivesJSON(t *testing.T) {
	key := configv1.KindOf((*configv1.Key)(nil))
	for name, item := range map[string]admin.Item{
		"good": {Kind: key, Name: "a", Object: &configv1.Key{Name: "a", DisplayName: "x"},
			Status: admin.Status{Revision: 3}},
		"with error": {Kind: key, Name: "a", Object: &configv1.Key{Name: "a"},
			Status: admin.Status{Revision: 3, Error: "no"}},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := json.Marshal(item)
			require.NoError(t, err)
			var again admin.Item
			require.NoError(t, json.Unmarshal(data, &again))
			require.Equal(t, item.Status, again.Status)
			require.Equal(t, item.Kind.Name, again.Kind.Name)
			require.Empty(t, cmp.Diff(item.Object, again.Object, protocmp.Transform()))
		})
	}
	unreadable, err := json.Marshal(admin.Item{Kind: key, Name: "a", Status: admin.Status{Revision: 3, Error: "garbage"}})
	require.NoError(t, err)
	require.Equal(t, `{"kind":"Key","name":"a","status":{"revision":3,"error":"garbage"}}`, string(unreadable))
}
