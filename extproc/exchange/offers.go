package exchange

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/account"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/guard"
	"github.com/modelgate/modelgate/internal/offered"
	"github.com/modelgate/modelgate/internal/provider/dialects/messages"
	"github.com/modelgate/modelgate/internal/reported"
)

// offers are what a request has the vendor do, read from the client's request and from that of the first attempt. A
// nil list has nothing.
type offers struct {
	isRead   bool
	client   *offered.List
	isJudged bool
	sent     *offered.List
}

// priced returns the list that prices are for: what goes out, where that was read.
func (o *offers) priced() *offered.List {
	if o.isJudged {
		return o.sent
	}
	return o.client
}

// offersOf returns what the client's request has a vendor do. It is read once.
func (x *Exchange) offersOf() *offered.List {
	o, r := &x.offers, &x.c.Request
	if o.isRead {
		return o.client
	}
	o.isRead = true
	plainItems := !x.readsItems()
	switch of := r.Encoder.(type) {
	case offered.Indexed:
		o.client = offered.ReadIndexed(of, plainItems)
	case offered.Form:
		if r.Sent == nil {
			o.client = offered.ReadForm(of)
		} else {
			o.client = offered.ReadIndexed(r.Sent, false)
		}
	default:
		o.client = offered.ReadIndexed(r.Sent, plainItems)
	}
	if x.c.Operation.Path == "" && len(x.c.Key.Models) > 0 { // the path has the model, and the body may name another
		if named := gjson.ParseBytes(r.Sent.Get("model")).String(); named != "" && !sameModel(named, r.Model) {
			o.client = o.client.WithModel(offered.Model{Name: named, Member: "model"})
		}
	}
	return o.client
}

// readsItems reports whether something may ask what items of the conversation bring: expressions, rules about tools,
// rights, or money.
func (x *Exchange) readsItems() bool {
	c := x.c.Config
	return len(c.Rails)+len(c.Policies)+len(c.Caches)+len(c.RateLimits)+len(x.c.Key.Models) > 0 ||
		x.account.RulesOfKey().Budget
}

// namesOthers reports whether a request of a key for some models names others, or may. The answer to an equal request
// of another key is not for it then.
func (x *Exchange) namesOthers() bool {
	if len(x.c.Key.Models) == 0 {
		return false
	}
	l := x.offersOf()
	return l != nil && len(l.Models) > 0
}

// sameModel reports whether a Gemini request names in its body the model of its path.
func sameModel(named, asked string) bool {
	named = strings.TrimPrefix(named, "models/")
	return named == asked || strings.HasSuffix(asked, "/"+named)
}

// guardTools has the rules that list tools look at those that a client offers, and returns the rule that refuses them.
// What is a switch, or unknown, is judged as it goes out.
func (x *Exchange) guardTools(ctx context.Context, work *guard.Work, set *guard.Set,
	findings guard.Findings) (blocked string, err error) {
	l := x.offersOf()
	if l == nil {
		return "", nil
	}
	declared := slices.DeleteFunc(slices.Clone(l.Tools), func(t offered.Tool) bool { return !isDeclared(&t) })
	return set.Tools(ctx, work, declared, findings)
}

// isDeclared reports whether a guardrail judges a tool as the client declares it.
func isDeclared(t *offered.Tool) bool { return t.Kind < offered.Switch }

// A judge decides on what goes to vendors. What it decides for the first attempt is what retries are held to.
type judge struct {
	x        *Exchange
	set      *guard.Set // nil: no rule lists tools
	declared *offered.Cover
	known    *offered.Cover // by policies; nil: none has asked
	planned  bool           // the first attempt is on its way
	fees     []offered.Fee  // of the first attempt
	tier     string         // likewise
}

// judgeOf returns what judges the attempts of a request; nil if nothing has to.
func (x *Exchange) judgeOf() *judge {
	l, limits := x.offers.client, x.guarded.set.LimitsTools()
	if x.c.Operation == realtime || !limits && x.facts == nil && !l.HasMore() {
		return nil
	}
	j := &judge{x: x}
	if limits {
		j.set, j.declared = x.guarded.set, l.Cover(isDeclared)
	}
	if x.facts != nil {
		j.known = l.Cover(func(*offered.Tool) bool { return true })
	}
	return j
}

// Judge implements routing.Judge.
func (j *judge) Judge(t routing.Target, body []byte) error {
	out := offered.Read(body)
	if mediaType(j.x.c.Head.ContentType) == contentTypeForm {
		out = j.x.offers.client // it passes as it is
	}
	if e := j.rights(t, out); e != nil {
		return e
	}
	if e := j.tools(out); e != nil {
		return e
	}
	if j.planned {
		return j.prices(out)
	}
	j.x.offers.isJudged, j.x.offers.sent = true, out
	if out != nil {
		j.fees, j.tier = out.Fees, out.Tier
	}
	return nil
}

// rights returns the error of a request that reaches a model beside its own that the key may not use.
func (j *judge) rights(t routing.Target, out *offered.List) error {
	provider := t.Provider.Config.GetName()
	var models []offered.Model
	if out != nil {
		models = out.Models
	}
	if c := j.x.offers.client; c != nil && j.x.c.Operation.Path == "" { // the path has the model, and the body may too
		models = slices.Concat(models, c.Models)
	}
	for _, m := range models {
		if j.x.c.Config.MayReach(j.x.c.Key, provider, m.Name) {
			continue
		}
		return openai.CodeModelNotAllowed.On(m.Member, "'%s' can lead to other models than 'model', which this key may not use. Leave it out.",
			m.Member).Final()
	}
	return nil
}

// tools has guardrails and policies judge the tools that go out, unless they judged them as the client's.
func (j *judge) tools(out *offered.List) error {
	if out == nil || j.set == nil && j.known == nil {
		return nil
	}
	var found, unknown []offered.Tool
	for i := range out.Tools {
		t := &out.Tools[i]
		if isAnswer(t) {
			continue
		}
		if j.set != nil && !j.declared.Has(t) {
			found = append(found, *t)
		}
		if j.known != nil && !j.known.Has(t) {
			unknown = append(unknown, *t)
		}
	}
	if len(found) > 0 {
		if e := j.guard(found); e != nil {
			return e
		}
	}
	if len(unknown) > 0 {
		return j.decide(unknown)
	}
	return nil
}

// isAnswer reports whether a tool is the gateway's own, for structured output.
func isAnswer(t *offered.Tool) bool {
	return t.Kind == offered.Function && strings.TrimRight(t.Name, "_") == messages.AnswerTool
}

// guard has guardrails judge tools that go out.
func (j *judge) guard(tools []offered.Tool) error {
	findings := guard.Findings{}
	blocked, err := j.set.Tools(context.Background(), guard.NewWork(), tools, findings) // a bounded one
	if u, ok := errors.AsType[*guard.Unjudged](err); ok {
		return u.Refusal()
	}
	if !j.planned {
		for of, n := range findings {
			j.x.c.Found(of, n)
		}
	}
	if blocked == "" {
		return nil
	}
	if !j.planned {
		j.x.c.Record.RefusedBy = "guardrail " + blocked
	}
	return contentBlocked(blocked, "")
}

// decide has policies decide again, with tools that only show as the request goes out: the definitions of functions
// that the conversation has called, for example. A retry must have no other tools than the first attempt.
func (j *judge) decide(tools []offered.Tool) error {
	if j.planned {
		return notJudged(tools[0].Name)
	}
	x, facts := j.x, *j.x.facts
	facts.Tools = append(slices.Clone(facts.Tools), (&offered.List{Tools: tools}).Names()...)
	d := x.c.Config.Policies.Decide(&facts)
	if d.Denied != "" {
		return x.deny(x.c.Request.Model, d.Denied, d.Message)
	}
	fits := func(when cel.Program) bool { return facts.Fits(when) }
	same := cmp.Or(d.Chosen, x.chosenBy()) == x.chosenBy()
	if !same || x.c.Config.Rails.For(&x.c.Record.Subject, facts.Model, fits).Chosen() != x.guarded.set.Chosen() {
		return notJudged(tools[0].Name)
	}
	x.facts.Tools = facts.Tools
	j.known = x.offers.client.Cover(func(*offered.Tool) bool { return true }).With(tools)
	return nil
}

// chosenBy returns the rule that has chosen another model, or "".
func (x *Exchange) chosenBy() string {
	rule, _, _ := strings.Cut(x.c.Record.Policy, " instead of ")
	return rule
}

// notJudged is the error of a request that offers a tool on which nobody has decided.
func notJudged(tool string) error {
	return openai.CodeNotGuarded.On("tools",
		"The provider of this model would get the tool '%s', on which the policies of this key have not decided.", tool)
}

// prices holds a retry to what the first attempt was charged for.
func (j *judge) prices(out *offered.List) error {
	if rules := j.x.account.Rules; out == nil || rules == nil || !rules.Budget {
		return nil
	}
	for _, f := range out.Fees {
		if !slices.ContainsFunc(j.fees, func(of offered.Fee) bool { return of.Tool == f.Tool }) {
			return openai.CodeUnsupportedParameter.On(f.Member,
				"What '%s' has the provider do has no price for this model, and your key has a budget.", f.Member)
		}
	}
	if asked := j.x.offers.client; !reported.IsUsual(out.Tier) && out.Tier != j.tier &&
		(asked == nil || out.Tier != asked.Tier) {
		return account.UnpricedTier(out.TierMember)
	}
	return nil
}
