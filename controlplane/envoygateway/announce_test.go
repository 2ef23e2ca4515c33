package envoygateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// An apiServer has the HTTPRoutes of two namespaces, each by its path.
type apiServer struct {
	rules, revisions map[string]string
	patched          []string
	forbidden        bool
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodPatch {
		if s.forbidden {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		var patch struct {
			Metadata struct{ Annotations map[string]string }
		}
		if json.NewDecoder(r.Body).Decode(&patch) != nil || r.Header.Get("Content-Type") != "application/merge-patch+json" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		var namespace, name string
		for at := range s.rules {
			_, _ = fmt.Sscanf(at, "%1s/%s", &namespace, &name)
			if r.URL.Path == "/apis/gateway.networking.k8s.io/v1/namespaces/"+namespace+"/httproutes/"+name {
				s.patched = append(s.patched, at)
				s.revisions[at] = patch.Metadata.Annotations[Revision]
			}
		}
		_, _ = fmt.Fprint(w, `{"apiVersion":"gateway.networking.k8s.io/v1","kind":"HTTPRoute"}`)
		return
	}
	list := map[string]any{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRouteList"}
	items := []any{}
	for at, rule := range s.rules {
		var namespace, name string
		_, _ = fmt.Sscanf(at, "%1s/%s", &namespace, &name)
		if r.URL.Path != "/apis/gateway.networking.k8s.io/v1/httproutes" &&
			r.URL.Path != "/apis/gateway.networking.k8s.io/v1/namespaces/"+namespace+"/httproutes" {
			continue
		}
		items = append(items, map[string]any{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
			"metadata": map[string]any{"namespace": namespace, "name": name,
				"annotations": map[string]any{Revision: s.revisions[at]}},
			"spec": map[string]any{"rules": []any{map[string]any{"name": rule}, "of another form"}}})
	}
	list["items"] = items
	_ = json.NewEncoder(w).Encode(list)
}

func TestOnlyMarkedRoutesAreAnnotatedAndOnlyOnce(t *testing.T) {
	s := &apiServer{revisions: map[string]string{}, rules: map[string]string{"a/models": "modelgate",
		"b/edge": "modelgate.edge", "a/other": "web"}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	client, err := dynamic.NewForConfig(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, announce(t.Context(), client, []string{metav1.NamespaceAll}, "r1"))
	}
	require.ElementsMatch(t, []string{"a/models", "b/edge"}, s.patched)
	require.Equal(t, map[string]string{"a/models": "r1", "b/edge": "r1"}, s.revisions)

	require.NoError(t, announce(t.Context(), client, []string{"a"}, "r2"))
	require.Equal(t, map[string]string{"a/models": "r2", "b/edge": "r1"}, s.revisions, "only where it may look")

	s.forbidden = true
	require.ErrorContains(t, announce(t.Context(), client, []string{"b"}, "r3"), "annotating HTTPRoute b/edge")
}
