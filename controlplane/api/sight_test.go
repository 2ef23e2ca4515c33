package api_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/certs"
)

type document = map[string]any

// with returns a copy of a document with members set.
func with(d document, members document) document {
	d = maps.Clone(d)
	maps.Copy(d, members)
	return d
}

func text(t *testing.T, d document) string {
	t.Helper()
	b, err := json.Marshal(d)
	require.NoError(t, err)
	return string(b)
}

// A mover is what may change an object: by each endpoint of the API that does.
var movers = map[string]func(b *bench, t *testing.T, kind, plural string, d document, who string) answer{
	"PUT": func(b *bench, t *testing.T, _, plural string, d document, who string) answer {
		return b.do(t, "PUT", "/admin/v1/"+plural+"/"+d["name"].(string), text(t, d), who)
	},
	"PUT dry run": func(b *bench, t *testing.T, _, plural string, d document, who string) answer {
		return b.do(t, "PUT", "/admin/v1/"+plural+"/"+d["name"].(string)+"?dry_run=true", text(t, d), who)
	},
	"apply": func(b *bench, t *testing.T, kind, _ string, d document, who string) answer {
		return b.do(t, "POST", "/admin/v1/apply", text(t, with(d, document{"kind": kind})), who)
	},
	"apply dry run": func(b *bench, t *testing.T, kind, _ string, d document, who string) answer {
		return b.do(t, "POST", "/admin/v1/apply?dry_run=true", "["+text(t, with(d, document{"kind": kind}))+"]", who)
	},
}

// moves are, by kind and field, what decides who sees the credential.
func moves(t *testing.T) map[string]map[string]document {
	pair, err := certs.Ensure(t.TempDir(), nil, time.Now())
	require.NoError(t, err)
	return map[string]map[string]document{
		"providers": {
			"endpoint": {"endpoint": "https://evil.example/v1"}, "endpoint, path": {"endpoint": "https://vendor.example/other"},
			"endpoint, clear": {"endpoint": "http://vendor.example/v1"},
			"endpoint, none":  {"endpoint": ""}, "vendor": {"vendor": "echo"}, "region": {"region": "evil"},
			"project": {"project": "evil"},
			"headers": {"headers": document{"x-target-url": "https://evil.example"}}, "headers, none": {"headers": nil},
			"tls.ca":          {"tls": document{"ca": string(pair.Certificate)}},
			"tls.server_name": {"tls": document{"server_name": "evil.example"}},
		},
		"webhooks": {"url": {"url": "https://evil.example/hook"}},
		"responsecaches": {
			"similar.url": {"similar": document{"url": "https://evil.example/v1/embeddings", "model": "m"}},
			"similar.ca": {"similar": document{"url": "https://hooks.example/x", "model": "m",
				"ca": string(pair.Certificate)}},
		},
	}
}

// TestWhoseCredentialItIsDecidesWhoMovesIt goes through endpoint, field, source of the credential and role.
func TestWhoseCredentialItIsDecidesWhoMovesIt(t *testing.T) {
	b := newBench(t)
	roles := map[string]string{}
	for name, scopes := range map[string]string{
		"viewer":   `"config:read","keys:read","usage:read","jobs:read","audit:read","status:read"`,
		"operator": `"config:read","config:write","keys:read","keys:write","playground"`,
		"config":   `"config:write"`, "keys": `"keys:write"`, "admins": `"admins:write"`,
	} {
		roles[name] = as(b.makeToken(t, `{"display_name":"`+name+`","scopes":[`+scopes+`]}`).Token)
	}
	writes := []string{"operator", "config"}
	const hook = "whsec_Zmlyc3RmaXJzdGZpcnN0Zmlyc3RmaXJzdA=="
	kinds := map[string]string{"providers": "Provider", "webhooks": "Webhook", "responsecaches": "ResponseCache"}
	stored := map[string]document{
		"providers":      {"vendor": "openai", "endpoint": "https://vendor.example/v1", "headers": document{"x-team": "blue"}},
		"webhooks":       {"url": "https://hooks.example/x"},
		"responsecaches": {"similar": document{"url": "https://hooks.example/x", "model": "m"}},
	}
	field := map[string]string{"providers": "credential", "webhooks": "secret", "responsecaches": "credential"}
	sources := map[string]document{"value": {"value": hook}, "env": {"env": "TEAM"},
		"own env": {"env": "MODELGATE_OPENAI"}, "file": {"file": "/run/secrets/team"},
		"vault": {"vault": document{"path": "secret/data/team", "field": "key"}}}
	for plural, fields := range moves(t) {
		for source, credential := range sources {
			name := "p-" + strings.ReplaceAll(source, " ", "-")
			object := with(stored[plural], document{"name": name, field[plural]: credential})
			require.Equal(t, 201, b.do(t, "PUT", "/admin/v1/"+plural+"/"+name, text(t, object)).status)
			kept := credential
			if source == "value" {
				kept = document{"sealed": "[redacted]"}
			}
			before := b.do(t, "GET", "/admin/v1/"+plural+"/"+name, "").body
			for what, change := range fields {
				moved := with(with(object, document{field[plural]: kept}), change)
				for endpoint, move := range movers {
					label := strings.Join([]string{plural, source, what, endpoint}, " / ")
					for role, who := range roles {
						a := move(b, t, kinds[plural], plural, moved, who)
						require.Equal(t, http.StatusForbidden, a.status, "%s as %s: %s", label, role, a.body)
						require.NotContains(t, a.body, hook)
						if slices.Contains(writes, role) {
							require.Contains(t, a.body, "scope *", label)
						}
					}
				}
				// Whoever brings the credential may.
				anew := with(moved, document{field[plural]: document{"value": hook}})
				if what != "endpoint, none" { // of which the bench's vendors have none
					a := movers["PUT dry run"](b, t, kinds[plural], plural, anew, roles["operator"])
					require.Equal(t, 200, a.status, "%s / %s: %s", source, what, a.body)
					require.NotContains(t, a.body, hook)
				}
			}
			require.Equal(t, before, b.do(t, "GET", "/admin/v1/"+plural+"/"+name, "").body, "nothing was changed")

			// What decides nothing is the operator's to change.
			a := b.do(t, "PUT", "/admin/v1/"+plural+"/"+name+"?dry_run=true",
				text(t, with(with(object, document{field[plural]: kept}), document{"disabled": true})), roles["operator"])
			require.Equal(t, 200, a.status, a.body)

			// Deleted and made anew, an object has no credential but one that the caller may name.
			require.Equal(t, 204, b.do(t, "DELETE", "/admin/v1/"+plural+"/"+name, "", roles["operator"]).status)
			again := with(with(object, document{field[plural]: kept}), fields[slices.Sorted(maps.Keys(fields))[0]])
			switch plural {
			case "providers":
				again = with(again, document{"endpoint": "http://evil.example", "headers": nil})
			case "webhooks":
				again["url"] = "http://evil.example"
			default:
				again["similar"] = document{"url": "http://evil.example", "model": "m"}
			}
			for _, who := range []string{roles["operator"], as(token)} {
				a = b.do(t, "POST", "/admin/v1/"+plural, text(t, again), who)
				require.Contains(t, []int{400, 403}, a.status, "%s %s: %s", plural, source, a.body)
			}
		}
	}
}

func TestANamedVariableIsNotLedAwayByHeadersOrTLS(t *testing.T) {
	b := newBench(t)
	operator := as(b.makeToken(t, `{"display_name":"ops","scopes":["config:read","config:write"]}`).Token)
	good := document{"name": "p", "vendor": "openai", "endpoint": "https://team.example",
		"credential": document{"env": "TEAM"}}
	require.Equal(t, 200, b.do(t, "PUT", "/admin/v1/providers/p?dry_run=true", text(t, good), operator).status)
	for _, field := range []string{"headers", "tls.server_name", "tls.ca"} {
		led := with(good, moves(t)["providers"][field])
		requireError(t, b.do(t, "PUT", "/admin/v1/providers/p", text(t, led), operator), 403, "insufficient_permissions",
			"scope *")
		require.Equal(t, 200, b.do(t, "PUT", "/admin/v1/providers/p?dry_run=true", text(t, led)).status, field)
	}
	// What the flags do not allow is nobody's to name.
	for _, c := range []document{{"env": "AWS_SECRET_ACCESS_KEY"}, {"file": "/etc/shadow"}, {"env": "OPENAI_API_KEY"},
		{"env": "KEY_OF_TLS"}} {
		requireError(t, b.do(t, "PUT", "/admin/v1/providers/p", text(t, with(good, document{"credential": c}))), 400,
			"invalid_object", "Start the control plane with --credential-")
	}
	requireError(t, b.do(t, "GET", "/admin/v1/providers/p", ""), 404, "not_found", "Provider p")
}

func TestThePlacesOfTheJobServiceAreNotAnOperatorsToChange(t *testing.T) {
	b := newBench(t)
	operator := as(b.makeToken(t, `{"display_name":"ops","scopes":["config:read","config:write"]}`).Token)
	pair, err := certs.Ensure(t.TempDir(), nil, time.Now())
	require.NoError(t, err)
	another, err := certs.Ensure(t.TempDir(), nil, time.Now())
	require.NoError(t, err)
	tls := document{"certificate": "internal", "ca": string(pair.Certificate), "server_name": "jobs"}
	stored := document{"name": "default", "address": "jobs:9090", "listen": "0.0.0.0:8444", "tls": tls}
	requireError(t, b.do(t, "PUT", "/admin/v1/jobservices/default", text(t, stored), operator), 403,
		"insufficient_permissions", "scope *")
	require.Equal(t, 201, b.do(t, "PUT", "/admin/v1/certificates/internal",
		text(t, document{"name": "internal", "chain": string(pair.Certificate),
			"private_key": document{"value": string(pair.Key)}})).status)
	require.Equal(t, 201, b.do(t, "PUT", "/admin/v1/jobservices/default", text(t, stored)).status)
	require.Equal(t, 200, b.do(t, "PUT", "/admin/v1/jobservices/default", text(t, stored), operator).status, "it stays")
	for _, change := range map[string]document{
		"address": {"address": "evil.example:9090"}, "listen": {"listen": "0.0.0.0:9999"},
		"tls.ca":          {"tls": with(tls, document{"ca": string(another.Certificate)})},
		"tls.server_name": {"tls": with(tls, document{"server_name": "evil"})},
		"tls.certificate": {"tls": with(tls, document{"certificate": "default"})},
	} {
		for _, move := range movers {
			requireError(t, move(b, t, "JobService", "jobservices", with(stored, change), operator), 403,
				"insufficient_permissions", "scope *")
		}
	}
}
