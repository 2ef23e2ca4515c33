package api_test

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// described is the description of the API, read once.
var described = sync.OnceValues(func() (*openapi3.T, error) {
	d, err := openapi3.NewLoader().LoadFromData(adminapi.Description())
	if err == nil {
		d.Servers = nil // paths as they are
	}
	return d, err
})

// router finds the operation of a request.
var router = sync.OnceValues(func() (routers.Router, error) {
	d, err := described()
	if err != nil {
		return nil, err
	}
	return legacy.NewRouter(d)
})

// checkAnswer demands that an answer is as the description says. Of a path that is not described it demands nothing.
func checkAnswer(t *testing.T, r *http.Request, a answer) {
	t.Helper()
	if r.URL.Path == "/admin/v1/openapi.json" { // which it does not describe itself
		return
	}
	find, err := router()
	require.NoError(t, err)
	asked := r.Clone(t.Context())
	// The description has one path for names with slashes.
	if parts := strings.SplitN(asked.URL.Path, "/", 5); len(parts) == 5 && isKind(parts[3]) {
		if _, _, err := find.FindRoute(asked); err != nil {
			asked.URL.Path = strings.Join(parts[:4], "/") + "/" + strings.ReplaceAll(parts[4], "/", "-")
		}
	}
	route, params, err := find.FindRoute(asked)
	if err != nil || a.status == http.StatusMethodNotAllowed {
		return
	}
	err = openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: asked, PathParams: params, Route: route},
		Status:                 a.status, Header: a.header, Body: io.NopCloser(bytes.NewBufferString(a.body)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true,
			// The library cannot read lines of JSON.
			ExcludeResponseBody: strings.HasPrefix(a.header.Get("Content-Type"), "application/jsonl")},
	})
	if err != nil {
		t.Fatalf("%s %s: %d %.500s\n%.1500s", r.Method, r.URL, a.status, a.body, err)
	}
}

func isKind(plural string) bool {
	return slices.ContainsFunc(configv1.Kinds(), func(k configv1.Kind) bool { return k.Plural == plural })
}

// concrete fills the variables of a path.
func concrete(path string) string {
	return strings.NewReplacer("{kind}", "providers", "{name}", "a", "{id}", "key_1", "{resource}",
		"completions").Replace(path)
}

func TestDescriptionIsInStepWithTheServer(t *testing.T) {
	d, err := described()
	require.NoError(t, err)
	require.NoError(t, d.Validate(t.Context()))
	b := newBench(t)
	for path, item := range d.Paths.Map() {
		for _, method := range []string{"GET", "PUT", "POST", "DELETE", "PATCH"} {
			status := b.do(t, method, concrete(path), "").status
			if item.GetOperation(method) != nil {
				require.NotEqual(t, 405, status, "%s %s is described and not served", method, path)
			} else {
				require.Equal(t, 405, status, "%s %s is served and not described", method, path)
			}
		}
	}
	var names, plurals []any
	for _, k := range configv1.Kinds() {
		names, plurals = append(names, k.Name), append(plurals, k.Plural)
	}
	require.Equal(t, plurals, d.Components.Parameters["kind"].Value.Schema.Value.Enum)
	require.Equal(t, names, d.Components.Schemas["Object"].Value.Properties["kind"].Value.Enum)
	scopes := d.Components.Schemas["TokenRequest"].Value.Properties["scopes"].Value.Items.Value.Enum
	for i, s := range configv1.Scopes() {
		require.Equal(t, s, scopes[i])
	}
	require.Len(t, scopes, len(configv1.Scopes()))
}

func TestDescriptionIsServedToStrangersAsJSON(t *testing.T) {
	b := newBench(t)
	a := b.do(t, "GET", "/admin/v1/openapi.json", "", "Authorization: ")
	require.Equal(t, 200, a.status)
	require.Equal(t, "application/json", a.header.Get("Content-Type"))
	served, err := openapi3.NewLoader().LoadFromData([]byte(a.body))
	require.NoError(t, err)
	require.Equal(t, "3.1.0", served.OpenAPI)
	require.Equal(t, 401, b.do(t, "POST", "/admin/v1/openapi.json", "", "Authorization: ").status)
}
