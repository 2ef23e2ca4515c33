package exchange

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"

	"github.com/modelgate/modelgate/extproc/routing"
)

func modelOf(name string, change func(*configv1.Model)) *configv1.Model {
	m := &configv1.Model{Name: name, Targets: []*configv1.Target{{Provider: "p", Model: "upstream-" + name}}}
	change(m)
	return m
}

// ownedModels is a configuration whose models belong to everybody, to an organization, to a project, and to nobody in
// particular.
func ownedModels(t *testing.T) *tenancy {
	e := newTenancy(t,
		&configv1.Key{Name: "none"},
		&configv1.Key{Name: "a", Organization: "a"},
		&configv1.Key{Name: "a/x", Organization: "a", Project: "x"},
		&configv1.Key{Name: "a/y", Organization: "a", Project: "y"},
		&configv1.Key{Name: "b/x", Organization: "b", Project: "x"},
		&configv1.Key{Name: "a base", Organization: "a", Models: []string{"p/base*"}},
		&configv1.Key{Name: "a tuned", Organization: "a", Models: []string{"tuned-*"}},
		&configv1.Key{Name: "a other", Organization: "a", Models: []string{"everybodys"}},
	)
	tuned := &configv1.FineTuned{Job: "ftjob_1", BaseModel: "p/base-1"}
	for _, m := range []*configv1.Model{
		modelOf("everybodys", func(*configv1.Model) {}),
		modelOf("a-only", func(m *configv1.Model) { m.Organization = "a" }),
		modelOf("ax-only", func(m *configv1.Model) { m.Organization, m.Project = "a", "x" }),
		modelOf("tuned-a", func(m *configv1.Model) { m.Organization, m.FineTuned = "a", tuned }),
		modelOf("tuned-none", func(m *configv1.Model) { m.FineTuned = tuned }),
	} {
		e.Models[m.GetName()] = m
	}
	return e
}

func TestWhoMayUseAModel(t *testing.T) {
	e := ownedModels(t)
	for key, want := range map[string]string{
		"none":    "everybodys tuned-none p/upstream-tuned-none",
		"a":       "everybodys a-only tuned-a p/upstream-tuned-a",
		"a/x":     "everybodys a-only ax-only tuned-a p/upstream-tuned-a",
		"a/y":     "everybodys a-only tuned-a p/upstream-tuned-a",
		"b/x":     "everybodys",
		"a base":  "tuned-a p/upstream-tuned-a",
		"a tuned": "tuned-a p/upstream-tuned-a",
		"a other": "everybodys",
	} {
		var got []string
		for _, name := range []string{"everybodys", "a-only", "ax-only", "tuned-a", "tuned-none", "p/upstream-tuned-a",
			"p/upstream-tuned-none"} {
			missing := strings.ReplaceAll(name, "a", "z") // as long, and not there
			if strings.HasPrefix(name, "p/") {
				missing = "z/" + name[2:]
			}
			x := New(e.env, e.Config)
			one := x.RequestHeaders(context.Background(), e.request("GET", "/v1/models/"+name, key), true).Immediate
			chats := e.chats(t, key, name)
			require.Equal(t, one.Status == 200, chats == nil, "%s %s: what is shown can be asked, and nothing else", key, name)
			if one.Status == 200 {
				got = append(got, name)
				continue
			}
			other := New(e.env, e.Config).RequestHeaders(context.Background(), e.request("GET", "/v1/models/"+missing, key),
				true).Immediate
			require.Equal(t, strings.ReplaceAll(string(other.Body), missing, name), string(one.Body),
				"it looks like one that is missing")
			require.Equal(t, other.Status, one.Status)
			require.Equal(t, e.chats(t, key, missing).Status, chats.Status)
			require.Equal(t, strings.ReplaceAll(e.chats(t, key, missing).Message, missing, name), chats.Message)
		}
		require.Equal(t, want, strings.Join(got, " "), key)
		listed := e.list(t, key)
		for _, m := range []string{"everybodys", "a-only", "ax-only", "tuned-a", "tuned-none"} {
			require.Equal(t, slices.Contains(got, m), slices.Contains(listed, m), "%s: %s", key, m)
		}
	}
}

// chats returns why a chat request would not be planned. This vendor has no codecs, which is found out later.
func (e *tenancy) chats(t *testing.T, key, model string) *openai.Error {
	t.Helper()
	x := New(e.env, e.Config)
	require.Nil(t, x.RequestHeaders(context.Background(), e.request("POST", "/v1/chat/completions", key),
		false).Immediate)
	reply := x.RequestBody(context.Background(),
		[]byte(`{"model":"`+model+`","messages":[{"role":"user","content":"x"}]}`))
	r := x.Close()
	require.NotNil(t, reply.Immediate)
	if r.Error.Code == "unsupported_endpoint" {
		return nil
	}
	return r.Error
}

// list returns the names that GET /v1/models shows, which are sorted and distinct.
func (e *tenancy) list(t *testing.T, key string) []string {
	t.Helper()
	var doc struct {
		Object string
		Data   []struct {
			ID      string
			Object  string
			Created int64
			Owned   string `json:"owned_by"`
		}
	}
	reply := New(e.env, e.Config).RequestHeaders(context.Background(), e.request("GET", "/v1/models", key), true)
	require.NoError(t, json.Unmarshal(reply.Immediate.Body, &doc), "%s", reply.Immediate.Body)
	require.Equal(t, "list", doc.Object)
	var names []string
	for _, m := range doc.Data {
		require.Equal(t, "model", m.Object)
		names = append(names, m.ID)
	}
	require.True(t, slices.IsSorted(names))
	require.Equal(t, names, slices.Compact(slices.Clone(names)))
	return names
}

func TestModelsThatProvidersListAreShown(t *testing.T) {
	e := newTenancy(t, &configv1.Key{Name: "all"}, &configv1.Key{Name: "some", Models: []string{"p/l*"}})
	no := false
	e.Providers["strict"] = &routing.Provider{Config: &configv1.Provider{Name: "strict", AllowUnlistedModels: &no,
		Models: []string{"named", "known"}}}
	e.Providers["p"].Config.Models = []string{"listed", "own"}
	listing := func(ids ...string) *configv1.Listing {
		l := &configv1.Listing{}
		for i, id := range ids {
			l.Models = append(l.Models, &configv1.ListedModel{Id: id, Created: int64(i + 1), OwnedBy: "them"})
		}
		l.Models = append(l.Models, &configv1.ListedModel{Id: "anonymous"})
		return l
	}
	e.Listings = map[string]*configv1.Listing{
		"p": listing("listed", "a/b", "configured", "ft:theirs"), "strict": listing("known", "unknown"), "off": listing("x"),
		"gone": listing("x"),
	}
	e.Models["p/configured"] = &configv1.Model{Name: "p/configured", OwnedBy: "us",
		CreatedAt: &timestamppb.Timestamp{Seconds: 9}, Targets: []*configv1.Target{{Provider: "p", Model: "x"}}}
	e.Models["tuned"] = &configv1.Model{Name: "tuned", Organization: "a", FineTuned: &configv1.FineTuned{},
		Targets: []*configv1.Target{{Provider: "p", Model: "ft:theirs"}}}
	e.Index()
	require.Equal(t, []string{"p/a/b", "p/anonymous", "p/configured", "p/listed", "p/own", "strict/known",
		"strict/named"}, e.list(t, "all"))
	require.Equal(t, []string{"p/listed"}, e.list(t, "some"))
	for path, want := range map[string]string{
		"p/listed":       `{"id":"p/listed","object":"model","created":1,"owned_by":"them"}`,
		"p%2Fa%2Fb":      `{"id":"p/a/b","object":"model","created":2,"owned_by":"them"}`,
		"p/anonymous":    `{"id":"p/anonymous","object":"model","created":1577836800,"owned_by":"p"}`,
		"p/never/listed": `{"id":"p/never/listed","object":"model","created":1577836800,"owned_by":"p"}`,
		"p/configured":   `{"id":"p/configured","object":"model","created":9,"owned_by":"us"}`,
		"strict/known":   `{"id":"strict/known","object":"model","created":1,"owned_by":"them"}`,
		"strict/named":   `{"id":"strict/named","object":"model","created":1577836800,"owned_by":"strict"}`,
	} {
		reply := New(e.env, e.Config).RequestHeaders(context.Background(), e.request("GET", "/v1/models/"+path, "all"), true)
		require.Equal(t, want, string(reply.Immediate.Body))
	}
	for _, path := range []string{"strict/unknown", "off/x", "gone/x", "p/ft:theirs", "tuned"} {
		require.Equal(t, 404, New(e.env, e.Config).RequestHeaders(context.Background(),
			e.request("GET", "/v1/models/"+path, "all"), true).Immediate.Status, path)
	}
}

func BenchmarkModels(b *testing.B) {
	e := newTenancy(b, &configv1.Key{Name: "all"}, &configv1.Key{Name: "bound", Models: []string{"q/*", "p/*-1??"}})
	l := &configv1.Listing{Name: "p"}
	for i := range 2000 {
		l.Models = append(l.Models, &configv1.ListedModel{Id: fmt.Sprintf("vendor/model-%d", i), Created: 1700000000,
			OwnedBy: "vendor"})
	}
	e.Listings = map[string]*configv1.Listing{"p": l}
	e.Index()
	for _, key := range []string{"all", "bound"} {
		b.Run(key, func(b *testing.B) {
			h := e.request("GET", "/v1/models", key)
			b.ReportAllocs()
			for b.Loop() {
				New(e.env, e.Config).RequestHeaders(context.Background(), h, true)
			}
		})
	}
	b.Run("index", func(b *testing.B) {
		for b.Loop() {
			e.Index()
		}
	})
}
