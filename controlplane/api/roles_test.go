package api_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/api"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/internal/golden"
)

// rowOf returns the row of an endpoint in the table that the server decides by.
func rowOf(t *testing.T, method, path string, scope authz.Scope) api.Endpoint {
	t.Helper()
	path, _, _ = strings.Cut(path, "?")
	found := api.Endpoint{}
	for _, e := range api.Endpoints() {
		if e.Method == method && matchesPath(e.Path, path) && len(e.Path) > len(found.Path) {
			found = e
		}
	}
	require.NotEmpty(t, found.Path, "%s %s is not in the table", method, path)
	found.Scope = scope // of apply and rollback, it depends on what is given
	return found
}

// matchesPath reports whether a path is one of a pattern.
func matchesPath(pattern, path string) bool {
	want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
	return len(want) == len(got) && !slices.ContainsFunc(want, func(s string) bool {
		i := slices.Index(want, s)
		return s != got[i] && !strings.HasPrefix(s, "{")
	})
}

// TestEveryEndpointIsTried: a new endpoint needs a row in endpoints.
func TestEveryEndpointIsTried(t *testing.T) {
	for _, e := range api.Endpoints() {
		assert.True(t, slices.ContainsFunc(endpoints(), func(tried struct {
			method, path, body string
			scope              authz.Scope
		}) bool {
			path, _, _ := strings.Cut(tried.path, "?")
			return tried.method == e.Method && matchesPath(e.Path, path)
		}), "%s %s is tried with no role", e.Method, e.Path)
	}
}

const aboutRoles = `<!-- Written by go test ./controlplane/api -run TestTheTableOfRoles -update; do not edit. -->

# Who may use which endpoint

The gateway decides by this table, and a test tries every endpoint with every role. [admin.md](admin.md) says what the
scopes are. Roles of a tenant come from a membership in an organization or in a project
([sign-in.md](sign-in.md#people-of-an-organization)). They reach only what is the tenant's: lists, sums and exports have
nothing else, and another tenant's object looks as if it were not there. A member changes only their own keys. Only an
organization's admin changes projects. [accounts.md](accounts.md) says who may set what of an account.

`

// TestTheTableOfRoles compares docs/access.md with the table that the server decides by.
func TestTheTableOfRoles(t *testing.T) {
	var b strings.Builder
	b.WriteString(aboutRoles)
	b.WriteString("| endpoint | scope |")
	line := "\n|---|---|"
	var roles []authz.Principal
	for _, r := range configv1.Roles() {
		roles = append(roles, authz.Principal{Scopes: authz.ScopesOf(r)})
		fmt.Fprintf(&b, " %s |", r)
		line += "---|"
	}
	for _, r := range configv1.TenantRoles() {
		roles = append(roles, member("o", "", r))
		fmt.Fprintf(&b, " tenant's %s |", r)
		line += "---|"
	}
	b.WriteString(line + "\n")
	for _, e := range api.Endpoints() {
		scope := string(e.Scope)
		switch {
		case scope == "" && strings.Contains(e.Path, "rollback"):
			e.Scope, scope = authz.ConfigWrite, "that of writing the kind"
		case scope == "":
			e.Scope, scope = authz.ConfigWrite, "those of writing each kind"
		case strings.HasSuffix(e.Path, "/policies/test"):
			scope += ", config:read"
		case strings.Contains(e.Path, "/history/"):
			scope += ", and that of reading the kind"
		}
		fmt.Fprintf(&b, "| `%s %s` | %s |", e.Method, e.Path, scope)
		for _, p := range roles {
			may := ""
			if e.For(p) {
				may = "yes"
			}
			fmt.Fprintf(&b, " %s |", may)
		}
		b.WriteString("\n")
	}
	golden.Bytes(t, "../../docs/access.md", []byte(b.String()))
}
