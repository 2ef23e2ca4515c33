package seen

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tiktoken-go/tokenizer"
	"google.golang.org/protobuf/types/known/durationpb"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/test/cases"
	"github.com/modelgate/modelgate/test/harness"
)

// Password of the account that looks at the pages.
const password = "a password of the scene"

// A client is one of the twelve keys.
type client struct{ id, key, organization, project string }

// A scene is a gateway with its providers and clients, and what was sent.
type scene struct {
	*harness.Gateway
	vendors *vendors
	admin   *adminapi.Client
	codec   tokenizer.Codec
	begin   time.Time
	keys    []client

	mu      sync.Mutex // guards asks and number
	asks    []*ask
	number  int
	batchID string
	job     string
}

// Keys with a part of their own. All others send everything.
const (
	limited = 3 + iota // five requests a day
	spender            // $1 a month, of which 85 % are spent
	broke              // $0.50 a month, of which more than all is spent
	expires            // in three days
	keys    = 12
)

// A price is in billionths of a dollar for a token.
type price struct{ input, cached, output int64 }

// prices are those of upstream models. The others have none.
func prices() map[string]price {
	return map[string]price{"alpha-1": {2500, 1250, 10_000}, "beta-1": {150, 75, 600}, "tired-1": {3000, 300, 15_000},
		"dear-1": {100_000, 50_000, 200_000}, "cut": {1000, 500, 2000}, "left": {1000, 500, 2000},
		"inband": {1000, 500, 2000}}
}

func newScene(t *testing.T) *scene {
	s := &scene{vendors: &vendors{asked: map[string]int64{}, first: map[string]time.Time{}}}
	server := cases.NewProvider(t, s.vendors.ServeHTTP)
	var err error
	s.codec, err = tokenizer.Get(tokenizer.O200kBase)
	require.NoError(t, err)
	s.Gateway = harness.Run(t, t.TempDir())
	s.admin = adminapi.NewClient(s.Admin, s.File(t, "admin-token"), s.Client)
	waiting := s.admin.Waiting(time.Minute, nil)
	_, err = waiting.Apply(t.Context(), objects(server.URL), false)
	require.NoError(t, err)
	for i := range keys {
		s.keys = append(s.keys, s.newKey(t, waiting, i))
	}
	s.begin = time.Now()
	return s
}

// objects are the configuration.
func objects(at string) []configv1.Object {
	credential := &configv1.Credential{Source: &configv1.Credential_Value{Value: "credential"}}
	target := func(provider, model string, priority uint32) *configv1.Target {
		return &configv1.Target{Provider: provider, Model: model, Priority: priority}
	}
	all := []configv1.Object{
		&configv1.Account{Name: "watcher", Role: configv1.Role_OWNER, Password: password},
		&configv1.Provider{Name: "absent", Vendor: "openai", Endpoint: "http://127.0.0.1:1/v1", Credential: credential},
		&configv1.Model{Name: "fast", Targets: []*configv1.Target{target("alpha", "alpha-1", 0)}},
		&configv1.Model{Name: "dear", Targets: []*configv1.Target{target("alpha", "dear-1", 0)}},
		&configv1.Model{Name: "secret", Organization: "vault",
			Targets: []*configv1.Target{target("alpha", "alpha-1", 0)}},
		&configv1.Model{Name: "busy", Targets: []*configv1.Target{target("tired", "tired-1", 0),
			target("beta", "beta-1", 1)}},
		&configv1.Model{Name: "chain", Targets: []*configv1.Target{target("absent", "gone-1", 0),
			target("broken", "gone-1", 1), target("beta", "beta-1", 2)}},
		&configv1.Model{Name: "kept", Targets: []*configv1.Target{target("alpha", "alpha-1", 0)}},
		&configv1.ResponseCache{Name: "answers", Models: []string{"kept"}, MaxTemperature: 1},
		&configv1.Organization{Name: "vault"},
	}
	for _, p := range []string{"alpha", "beta", "tired", "faulty", "broken"} {
		all = append(all, &configv1.Provider{Name: p, Vendor: "openai", Endpoint: at + "/" + p, Credential: credential,
			Timeouts: &configv1.Timeouts{FirstByte: durationpb.New(30 * time.Second)}})
	}
	for name, target := range map[string]*configv1.Target{"dead": target("absent", "gone-1", 0),
		"broken": target("broken", "gone-1", 0)} {
		all = append(all, &configv1.Model{Name: name, Targets: []*configv1.Target{target},
			Retry: &configv1.Retry{MaxAttempts: 1}})
	}
	for _, o := range []string{"north", "south", "east"} {
		all = append(all, &configv1.Organization{Name: o, DisplayName: "The " + o})
	}
	for _, p := range []string{"north/web", "north/app", "south/ops"} {
		all = append(all, &configv1.Project{Name: p})
	}
	catalog := &configv1.Catalog{Name: "default", Version: "scene"}
	for model, p := range prices() {
		catalog.Models = append(catalog.Models, &configv1.ModelFacts{Vendors: []string{"openai"},
			Models: []string{model}, Price: &configv1.Price{Input: perMillion(p.input),
				CachedInput: perMillion(p.cached), Output: perMillion(p.output)}})
	}
	return append(all, catalog)
}

// perMillion writes a price for a token as one for a million, in dollars.
func perMillion(nano int64) string { return fmt.Sprintf("%d.%03d", nano/1000, nano%1000) }

func (s *scene) newKey(t *testing.T, admin *adminapi.Client, i int) client {
	places := []client{{organization: "north", project: "web"}, {organization: "north", project: "app"},
		{organization: "south", project: "ops"}, {organization: "east"}}
	c := places[i%len(places)]
	r := adminapi.KeyRequest{DisplayName: fmt.Sprint("key ", i), Organization: c.organization, Project: c.project}
	switch i {
	case limited:
		r.Limits = []adminapi.Limit{{Domain: "requests", Unit: "DAY", RequestsPerUnit: 5}}
	case spender:
		r.Budgets = []adminapi.Budget{{Unit: "MONTH", USD: "1"}}
	case broke:
		r.Budgets = []adminapi.Budget{{Unit: "MONTH", USD: "0.5"}}
	case expires:
		at := time.Now().Add(3 * 24 * time.Hour)
		r.ExpiresAt = &at
	}
	made, err := admin.CreateKey(t.Context(), r)
	require.NoError(t, err)
	c.id, c.key = made.ID, made.Key
	return c
}

// count counts the tokens of a text as OpenAI does.
func (s *scene) count(t *testing.T, text string) int64 {
	ids, _, err := s.codec.Encode(text)
	require.NoError(t, err)
	return int64(len(ids))
}

// await waits until the ledger has as many requests as were sent.
func (s *scene) await(t *testing.T) {
	harness.Eventually(t, "everything that was sent is in the ledger", func() error {
		all, err := s.logged(t.Context(), nil)
		if err == nil && len(all) != len(s.asks) {
			err = fmt.Errorf("%d of %d", len(all), len(s.asks))
		}
		return err
	})
}

// logged returns the request log, with filters.
func (s *scene) logged(ctx context.Context, filters map[string]string) (all []adminapi.Exchange, err error) {
	for o := (adminapi.ListOptions{Limit: 500, Filters: filters}); ; {
		page, err := s.admin.Requests(ctx, o)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if o.After = page.Next; o.After == "" {
			return all, nil
		}
	}
}
