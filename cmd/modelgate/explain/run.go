package explain

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/extproc/filters/cache"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/catalog"
	"github.com/modelgate/modelgate/internal/guard"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/inbound/dialects"
	"github.com/modelgate/modelgate/internal/limit"
	"github.com/modelgate/modelgate/internal/offered"
	"github.com/modelgate/modelgate/internal/policy"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/request"
	"github.com/modelgate/modelgate/internal/respcache"
	"github.com/modelgate/modelgate/internal/translate"
	"github.com/modelgate/modelgate/internal/usage"
)

// An Explainer puts requests to the code that the ext_proc service decides with, over the configuration of a gateway.
// It plays the part of Envoy, and its own limiter that of the store of limits. It is used by one goroutine.
type Explainer struct {
	config  exchange.Config // without a keyring
	caches  respcache.Caches
	rails   guard.Rails // with the rules that have checkers
	hasher  *auth.Hasher
	key     *configv1.Key     // as it is stored; nil: there is none
	keyErr  string            // why the stored one has no effect
	broken  map[string]string // why providers have none, by name
	open    *configv1.Key     // a key of the same tenant that may do everything
	used    map[string]int64
	unknown string // why what is used is not known
	address string
	now     time.Time
}

// Explain returns what would become of a request. Body is its JSON.
func (e *Explainer) Explain(ctx context.Context, operation string, body []byte) (*Explanation, error) {
	operation, body = ofGemini(operation, body)
	x := &Explanation{Operation: operation, Model: gjson.GetBytes(body, "model").Str, Targets: []*explainedTarget{},
		Limits: []explainedLimit{}, Unknown: e.unknown}
	asked := e.open
	if e.key != nil {
		asked, x.Key = e.key, e.explainedKey()
	}
	x.Model, body = e.resolved(asked, x.Model, body)
	reply, probe := e.ask(ctx, &e.config, asked, operation, body, e.used)
	given := body
	if x.Policy = probe.policy; x.Policy != "" {
		x.Model, body = probe.model, renamed(body, probe.model)
	}
	x.Guards, x.Cache = e.guards(ctx, asked, x.Model, operation, body), e.cache(asked, x.Model, operation, body)
	if i := reply.Immediate; i != nil {
		x.Refused = &refusedRequest{Status: i.Status, Body: i.Body}
	}
	// Even if the key may not, or a limit is reached, the rest is shown.
	free, amounts := e.ask(ctx, &e.config, e.open, operation, given, nil)
	if free.Immediate == nil && (free.Plan == nil || free.Plan.Kind != envoy.KindLLM) {
		return nil,
			admincli.Misused(
				"the operation %q has no plan: its requests go to the job service or to the provider of a Route", operation)
	}
	if p := free.Plan; p != nil {
		x.Plan = explainedPlanOf(p)
		if probe.asked {
			amounts = probe
		}
		x.limits(amounts, e.used)
	}
	if x.Model != "" {
		if err := e.targets(ctx, x, operation, body); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// subjectOf returns who a request with a key is from.
func subjectOf(key *configv1.Key) request.Subject {
	return request.Subject{Key: key.GetName(), KeyName: key.GetDisplayName(), Organization: key.GetOrganization(),
		Project: key.GetProject()}
}

// membersOf returns the members of a request; nil if it is no JSON object.
func membersOf(body []byte) *openai.Members {
	sent, err := openai.CheckMembers(body)
	if err != nil { // the refusal says so
		return nil
	}
	return sent
}

// guards returns what guardrails find in a request of a key, and which checkers would be asked.
func (e *Explainer) guards(ctx context.Context, key *configv1.Key, model, operation string, body []byte) []string {
	f := policy.Facts{Subject: subjectOf(key), Model: model, Operation: operation,
		Stream: gjson.GetBytes(body, "stream").Bool(), Tools: []string{}, Now: time.Now()}
	offers := offered.Read(body)
	f.Read(&inbound.Request{Sent: membersOf(body)}, len(body), offers)
	set := e.rails.For(&f.Subject, model, f.Fits)
	if set == nil {
		return nil
	}
	work := guard.NewWork()
	looked, err := set.Request(ctx, work, body)
	if err == nil && set.LimitsTools() && offers != nil {
		_, err = set.Tools(ctx, work, offers.Tools, looked.Findings)
	}
	if err != nil {
		return nil // the refusal says so
	}
	all := looked.Findings.Texts()
	for _, side := range []configv1.GuardSide{configv1.GuardSide_REQUESTS, configv1.GuardSide_ANSWERS} {
		for _, c := range set.Checks(side) {
			all = append(all, "the checker "+c.Checker+" is asked about the "+c.Side+" for the rule "+c.Rule+", but not here")
		}
	}
	return all
}

// cache returns which response cache is for a request of a key, and why it would not keep the answer.
func (e *Explainer) cache(key *configv1.Key, model, operation string, body []byte) string {
	of, sent := subjectOf(key), membersOf(body)
	c := e.caches.For(&of, model)
	op := dialects.Find(pathOf(operation, model), "")
	if c == nil || op == nil || !cache.MayBeKept(op) {
		return ""
	}
	if reason := c.Refuses(sent, offered.Read(body), op.TextAnswer); reason != "" {
		return c.Name() + " does not keep the answer, because of the request's " + reason
	}
	if op.TextAnswer && sent != nil && c.Compares(sent) {
		return c.Name() + ", also with the answer to a similar request"
	}
	return c.Name()
}

// resolved puts the name of a model by which it is planned for a key, or for one that may do everything, in the place
// of what the request calls it.
func (e *Explainer) resolved(key *configv1.Key, model string, body []byte) (name string, with []byte) {
	name, err := e.config.ResolveKey(key, model)
	if err != nil {
		name, err = e.config.ResolveKey(e.open, model)
	}
	if err != nil || name == model {
		return model, body
	}
	return name, renamed(body, name)
}

// renamed returns a request for another model.
func renamed(body []byte, model string) []byte {
	at := gjson.GetBytes(body, "model")
	return slices.Concat(body[:at.Index], openai.AppendString(nil, model), body[at.Index+len(at.Raw):])
}

// ofGemini splits an operation that is a path of Gemini's, such as models/gemini-3:generateContent. The body gets the
// name of the model, which other operations have there.
func ofGemini(operation string, body []byte) (string, []byte) {
	operation, _, _ = strings.Cut(operation, "?")
	path, method, ok := strings.Cut(operation, ":")
	_, model, named := strings.Cut(path, "models/")
	if plain, err := url.PathUnescape(model); err == nil {
		model = plain
	}
	if !ok || !named || gjson.GetBytes(body, "model").Exists() || !gjson.ParseBytes(body).IsObject() {
		return cmp.Or(method, operation), body
	}
	at := bytes.IndexByte(body, '{') + 1
	more := append(openai.AppendString([]byte(`"model":`), model), ',')
	if gjson.GetBytes(body, "@this|@keys|#").Int() == 0 {
		more = more[:len(more)-1]
	}
	return method, slices.Concat(body[:at], more, body[at:])
}

// pathOf returns the path of an operation. Gemini's have the model in it.
func pathOf(operation, model string) string {
	if gemini := "/v1beta/models/" + url.PathEscape(model) + ":" + operation; dialects.Find(gemini, "") != nil {
		return gemini
	}
	return "/v1/" + operation
}

// ask has a request decided for a key, with counters that have counted what is used already.
func (e *Explainer) ask(ctx context.Context, config *exchange.Config, key *configv1.Key, operation string, body []byte,
	used map[string]int64) (exchange.Reply, *probe) {
	// The key itself is not known, so that another takes its place.
	secret := auth.Generate().Reveal()
	hash := e.hasher.Hash(secret)
	key = proto.CloneOf(key)
	key.Hash, key.Retired = hash[:], nil
	// A limit that nothing reaches has the exchange say what it would reserve, if no other limit holds.
	key.Limits = append(key.Limits, &configv1.Limit{Domain: configv1.DomainConcurrency, RequestsPerUnit: math.MaxUint64})
	own := *config
	own.Keyring = own.Keyring.With(map[string]*configv1.Key{key.GetName(): key})

	limiter := &probe{Limiter: limit.NewMemory(limit.Options{}), used: used}
	env := &exchange.Env{
		Now: func() time.Time { return e.now }, Random: func(uint32) uint32 { return 0 },
		NewID: func() string { return "explained" }, Limits: limiter,
	}
	x := exchange.New(env, &own)
	reply := x.RequestHeaders(ctx, exchange.Headers{
		{Name: ":method", Value: http.MethodPost},
		{Name: ":path", Value: pathOf(operation, gjson.GetBytes(body, "model").Str)},
		{Name: "content-type", Value: "application/json"}, {Name: "authorization", Value: "Bearer " + secret},
		{Name: envoy.HeaderAddress, Value: e.address},
	}, len(body) == 0)
	if reply.Immediate == nil && reply.Plan == nil && len(body) > 0 {
		reply = x.RequestBody(ctx, body)
		for reply.Queue {
			reply = x.Turn(ctx)
		}
	}
	limiter.policy, limiter.model = x.Chosen()
	return reply, limiter
}

// A probe is a limiter that keeps what it is asked, and which model a policy has chosen.
type probe struct {
	limit.Limiter
	policy, model string
	used          map[string]int64 // by counter
	asked         bool
	demand        limit.Demand
}

// Reserve counts what is used already, and then decides.
func (p *probe) Reserve(ctx context.Context, d limit.Demand) (limit.Decision, error) {
	p.demand, p.asked = d, true
	for _, r := range d.Rules {
		n := p.used[r.Counter]
		if n <= 0 || r.Measure == limit.Concurrency {
			continue
		}
		r.Limit = math.MaxInt64
		seed := limit.Demand{ID: d.ID, Rules: []limit.Rule{r}}
		seed.Amounts[r.Measure] = n
		decided, err := p.Limiter.Reserve(ctx, seed)
		if err != nil {
			return decided, err
		}
		decided.Reservation.Settle(seed.Amounts)
	}
	return p.Limiter.Reserve(ctx, d)
}

// limits adds the rules that hold, and what the request takes of them.
func (x *Explanation) limits(p *probe, used map[string]int64) {
	a := p.demand.Amounts
	x.Reserved = &reservedAmounts{Input: a[limit.InputTokens], Output: a[limit.OutputTokens], CostUSD: expectedCost(a)}
	for _, r := range p.demand.Rules {
		if r.Limit == math.MaxInt64 {
			continue // that of ask
		}
		show := func(n int64) string { return strconv.FormatInt(n, 10) }
		if r.Measure == limit.Cost {
			show = func(n int64) string { return "$" + usage.Nano(n).String() }
		}
		l := explainedLimit{Counter: r.Counter, Limit: show(r.Limit), Takes: show(a[r.Measure]), Shadow: r.Shadow}
		if n, known := used[r.Counter]; known {
			l.Used = show(n)
		}
		x.Limits = append(x.Limits, l)
	}
}

func explainedPlanOf(p *routing.Plan) *explainedPlan {
	out := &explainedPlan{Attempts: len(p.Targets), TimeoutMS: p.Timeout.Milliseconds(),
		RetryStatuses: strings.FieldsFunc(p.Retry, func(r rune) bool { return r == ',' })}
	for _, t := range p.Targets {
		out.Order = append(out.Order, t.Provider.Config.GetName()+"/"+t.Model)
	}
	return out
}

// targets adds where the request may go. Each is asked for by itself, as if it were the only one.
func (e *Explainer) targets(ctx context.Context, x *Explanation, operation string, body []byte) error {
	model, listed := e.config.Models[x.Model]
	configured := model.GetTargets()
	if !listed {
		head, name, ok := strings.Cut(x.Model, "/")
		if !ok || e.config.Providers[head] == nil {
			return nil // the refusal says that there is no such model
		}
		configured = []*configv1.Target{{Provider: head, Model: name}}
	}
	shares := map[uint32]uint32{}
	for _, t := range configured {
		out := &explainedTarget{Provider: t.GetProvider(), Model: t.GetModel(), Priority: t.GetPriority(), Weight: t.Share()}
		x.Targets = append(x.Targets, out)
		config := e.config
		if listed {
			alone := proto.CloneOf(model)
			alone.Targets = []*configv1.Target{t}
			config.Models = maps.Clone(config.Models)
			config.Models[x.Model] = alone
		}
		if err := e.target(ctx, &config, out, operation, body); err != nil {
			return err
		}
		if out.LeftOut == "" {
			shares[out.Priority] += out.Weight
		}
	}
	for _, t := range x.Targets {
		if t.LeftOut == "" {
			t.Chance = float64(t.Weight) / float64(shares[t.Priority])
		}
	}
	slices.SortStableFunc(x.Targets, func(a, b *explainedTarget) int { return int(a.Priority) - int(b.Priority) })
	return nil
}

// target says what one target would be sent.
func (e *Explainer) target(ctx context.Context, config *exchange.Config, out *explainedTarget, operation string,
	body []byte) error {
	p := config.Providers[out.Provider]
	if p == nil {
		out.LeftOut = "This provider does not exist, or its configuration is refused."
		if why := e.broken[out.Provider]; why != "" {
			out.LeftOut = "The provider has no effect, or keeps its last good version: " + why
		}
		return nil
	}
	out.Vendor = p.Vendor.Name
	reply, asked := e.ask(ctx, config, e.open, operation, body, nil)
	switch i := reply.Immediate; {
	case p.Config.GetDisabled():
		out.LeftOut = "The provider is disabled."
		return nil
	case i != nil:
		out.LeftOut = gjson.GetBytes(i.Body, "error.message").Str
		return nil
	case reply.Plan == nil:
		return nil
	}
	attempt, err := reply.Plan.Encode(1)
	if err != nil {
		return err
	}
	request, err := vendorRequest(p, attempt)
	if err != nil {
		return err
	}
	request.Dropped, request.Adjusted = e.changed(p, out.Model, operation, body)
	out.Request = request.AppendJSON(nil)
	out.CostUSD = expectedCost(asked.demand.Amounts)
	if price := catalog.PriceAt(config.Catalog.Facts(out.Vendor, out.Model), e.now); price != nil {
		out.Tiers = explainedTiers(price, asked.demand.Amounts, gjson.GetBytes(body, "service_tier").Str)
		out.Price, err = protojson.MarshalOptions{UseProtoNames: true}.Marshal(price)
	}
	return err
}

// explainedTiers returns what the text of a request costs by service tier.
func explainedTiers(price *configv1.Price, a limit.Amounts, asked string) []explainedTier {
	rates := usage.Compile(price)
	if rates == nil {
		return nil
	}
	names := []string{"default"}
	for _, s := range price.GetServiceTiers() {
		names = append(names, s.GetName())
	}
	if in, known := rates.In(asked); known && in == rates {
		asked = "default"
	} else if !known {
		names = append(names, asked)
	}
	tiers := make([]explainedTier, 0, len(names))
	for _, name := range names {
		tier := explainedTier{Name: name, Asked: name == asked}
		if in, known := rates.In(name); known {
			cost, _ := in.Estimate(a[limit.InputTokens], a[limit.OutputTokens], false)
			tier.CostUSD = cost.String()
		}
		tiers = append(tiers, tier)
	}
	return tiers
}

// vendorRequest returns an attempt with credentials masked.
func vendorRequest(p *routing.Provider, a routing.Attempt) (translate.VendorRequest, error) {
	endpoint, err := p.Vendor.Endpoint(p.Config)
	if err != nil {
		return translate.VendorRequest{}, err
	}
	endpoint.Path = "" // the attempt's has it
	r := translate.VendorRequest{Method: http.MethodPost, URL: translate.Address(endpoint) + a.Header.Get(":path"),
		Header: map[string]string{}, Body: a.Body}
	for _, h := range a.Header {
		if h.Name[0] != ':' {
			r.SetHeader(h.Name, h.Value)
		}
	}
	return r, nil
}

// changed returns the parameters that the vendor cannot honour and the operator has dropped, and those whose values it
// does not take.
func (e *Explainer) changed(p *routing.Provider, model, operation string, body []byte) (dropped, adjusted []string) {
	endpoint, ok := map[string]translate.Endpoint{
		"chat/completions": translate.Chat, "completions": translate.Completions, "embeddings": translate.Embeddings,
		"messages": translate.Messages, "responses": translate.Responses,
	}[operation]
	if !ok {
		return nil, nil
	}
	r, err := translate.Parse(p.Vendor, endpoint, body)
	if err != nil {
		return nil, nil // it has been encoded: there is nothing wrong with it
	}
	encoded, _, err := r.Encode(provider.Target{Config: p.Config, Model: model, Last: true,
		Facts: e.config.Catalog.Facts(p.Vendor.Name, model)})
	if err != nil {
		return nil, nil
	}
	return encoded.Dropped, encoded.Adjusted
}

func (e *Explainer) explainedKey() *explainedKey {
	k := e.key
	state := "active"
	switch {
	case e.keyErr != "":
		state = "error: " + e.keyErr
	case k.GetDisabled():
		state = "disabled"
	case k.GetExpiresAt() != nil && !k.GetExpiresAt().AsTime().After(e.now):
		state = "expired"
	}
	return &explainedKey{ID: k.GetName(), Label: k.GetDisplayName(), Organization: k.GetOrganization(),
		Project: k.GetProject(), State: state,
		Models: notNil(k.GetModels()), Endpoints: notNil(k.GetEndpoints()), Addresses: notNil(k.GetAddresses())}
}

func notNil(list []string) []string { return append([]string{}, list...) }

// expectedCost is what is reserved of budgets, in US dollars. If a request seems to cost nothing, that is a billionth,
// which is not shown.
func expectedCost(a limit.Amounts) string {
	if a[limit.Cost] == 1 {
		return "0"
	}
	return usage.Nano(a[limit.Cost]).String()
}
