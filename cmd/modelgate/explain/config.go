package explain

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/proto"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/controlplane/xds"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/catalog"
	"github.com/modelgate/modelgate/internal/compile"
	"github.com/modelgate/modelgate/internal/guard"
	"github.com/modelgate/modelgate/internal/provider/all"
	"github.com/modelgate/modelgate/internal/translate"
	"github.com/modelgate/modelgate/internal/usage"
)

// New reads the configuration of a gateway. KeyID may be empty.
func New(ctx context.Context, client *adminapi.Client, keyID, address string) (*Explainer, error) {
	e := &Explainer{
		hasher: auth.NewHasher([]byte("explains, and lets nobody in")), now: time.Now(), used: map[string]int64{},
		address: address,
		open:    &configv1.Key{Name: "key_none", DisplayName: "none"},
	}
	e.config.Hasher = e.hasher
	if err := e.read(ctx, client); err != nil {
		return nil, err
	}
	if keyID != "" {
		if err := e.readKey(ctx, client, keyID); err != nil {
			return nil, err
		}
	}
	if e.address == "" {
		e.address = addressIn(e.key.GetAddresses())
	}
	e.config.Index()
	return e, nil
}

func (e *Explainer) read(ctx context.Context, client *adminapi.Client) error {
	providers, err := e.readProviders(ctx, client)
	if err != nil {
		return err
	}
	r, c := &reader{ctx: ctx, client: client}, &e.config
	c.Models, c.Listings = mapOf[*configv1.Model](r), mapOf[*configv1.Listing](r)
	c.Organizations, c.Projects = mapOf[*configv1.Organization](r), mapOf[*configv1.Project](r)
	c.Catalog = catalog.New(mapOf[*configv1.Catalog](r)["default"])
	c.Routes, c.RateLimits = routing.NewRoutes(mapOf[*configv1.Route](r)), rateLimits(listOf[*configv1.RateLimit](r))
	rules := &configv1.Settings{Guardrails: compile.InForce(listOf[*configv1.Guardrail](r)),
		Policies:       compile.InForce(listOf[*configv1.Policy](r)),
		ResponseCaches: compile.InForce(listOf[*configv1.ResponseCache](r))}
	if r.err != nil {
		return r.err
	}
	c.Providers = map[string]*routing.Provider{}
	for name, p := range providers {
		vendor, ok := all.Providers()[p.GetVendor()]
		if !ok {
			continue // of a gateway that is newer
		}
		// The admin API shows no credentials.
		resolved, err := routing.NewProvider(&configv1.ResolvedProvider{Name: name, Provider: p,
			Credential: translate.Placeholder(vendor.Name)}, vendor)
		if err == nil { // the control plane leaves out others too, and status says so
			c.Providers[name] = resolved
		}
	}
	return e.compileRules(rules)
}

// compileRules compiles the guardrails, the policies and the response caches.
func (e *Explainer) compileRules(s *configv1.Settings) error {
	rules, err := compile.Rules{}.Next(s, compile.Options{})
	if err != nil {
		return err
	}
	e.rails, e.caches, e.config.Policies = rules.Guardrails, rules.Caches, rules.Policies
	e.config.Rails, err = guard.Compile(unchecked(s.GetGuardrails()))
	return err
}

// unchecked returns guardrails whose checkers are not called about the request.
func unchecked(all []*configv1.Guardrail) []*configv1.Guardrail {
	out := make([]*configv1.Guardrail, len(all))
	for i, g := range all {
		out[i] = proto.CloneOf(g)
		out[i].Rules = slices.DeleteFunc(out[i].GetRules(), func(r *configv1.GuardRule) bool {
			return r.GetChecker() != "" && !r.LooksIn(configv1.GuardSide_ANSWERS)
		})
		for _, r := range out[i].GetRules() {
			if r.GetChecker() != "" {
				r.In = []configv1.GuardSide{configv1.GuardSide_ANSWERS}
			}
		}
	}
	return out
}

// readProviders returns the providers that have effect, and notes why others have none.
func (e *Explainer) readProviders(ctx context.Context, client *adminapi.Client) (map[string]*configv1.Provider,
	error) {
	items, err := admincli.ListAll(ctx, client, configv1.KindOf((*configv1.Provider)(nil)), adminapi.ListOptions{})
	if err != nil {
		return nil, err
	}
	usable := map[string]*configv1.Provider{}
	e.broken = map[string]string{}
	for _, i := range items {
		if i.Status.Error != "" {
			e.broken[i.Name] = i.Status.Error
		} else if p, ok := i.Object.(*configv1.Provider); ok {
			usable[i.Name] = p
		}
	}
	return usable, nil
}

// A reader reads objects, and keeps the first error.
type reader struct {
	ctx    context.Context
	client *adminapi.Client
	err    error
}

// listOf returns the objects of a type.
func listOf[T configv1.Object](r *reader) []T {
	if r.err != nil {
		return nil
	}
	all, err := admincli.Objects[T](r.ctx, r.client)
	r.err = err
	return all
}

// mapOf returns the objects of a type by their names.
func mapOf[T configv1.Object](r *reader) map[string]T {
	all := map[string]T{}
	for _, o := range listOf[T](r) {
		all[o.GetName()] = o
	}
	return all
}

// rateLimits returns them as the control plane serves them to the ext_proc service.
func rateLimits(stored []*configv1.RateLimit) map[string]*access.RateLimit {
	built, _ := xds.Build(xds.Input{RateLimits: stored}, xds.Options{}) // what is wrong with an object is in its status
	served := map[string]*access.RateLimit{}
	for _, r := range built {
		if m, ok := r.Message.(*rlsv3.RateLimitConfig); ok {
			if l, err := access.NewRateLimit(m); err == nil { // of a gateway that is newer, it may be an error
				served[r.Name] = l
			}
		}
	}
	return served
}

// readKey reads on whose behalf the request is, and what is used of the limits that hold.
func (e *Explainer) readKey(ctx context.Context, client *adminapi.Client, id string) error {
	item, err := client.Get(ctx, configv1.KeyKind(), id)
	if err != nil {
		return err
	}
	key, ok := item.Object.(*configv1.Key)
	if !ok {
		return fmt.Errorf("the key %s cannot be read: %s", id, item.Status.Error)
	}
	e.key, e.keyErr = key, item.Status.Error
	e.open = proto.CloneOf(key)
	e.open.Models, e.open.Endpoints, e.open.Addresses, e.open.Disabled, e.open.ExpiresAt = nil, nil, nil, false, nil
	used, err := client.KeyConsumption(ctx, id)
	if err != nil {
		e.unknown = admincli.Said(err).Error()
		return nil
	}
	for _, l := range used.Limits {
		if l.Used == nil {
			continue
		}
		counter := l.Scope + "/" + l.Domain + "/" + cmp.Or(strings.ToLower(l.Unit), "now")
		if l.Model != "" {
			counter += "/" + l.Model
		}
		e.used[counter] = *l.Used
	}
	for _, b := range used.Budgets {
		unit := configv1.Unit(configv1.Unit_value[strings.ToUpper(b.Unit)])
		counter, _ := access.BudgetCounter(b.Scope, unit)
		if spent, err := usage.ParseUSD(b.Spent); err == nil {
			e.used[counter] = int64(spent)
		}
	}
	return nil
}

// addressIn returns an address that a key may be used from.
func addressIn(allowed []string) string {
	if len(allowed) == 0 {
		return "127.0.0.1"
	}
	if p, err := netip.ParsePrefix(allowed[0]); err == nil {
		return p.Addr().String()
	}
	return allowed[0]
}
