package call

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/internal/offered"
)

// offers are what a request has the vendor do, read from the client's request and from that of the first attempt. A
// nil list has nothing.
type offers struct {
	isRead   bool
	client   *offered.List
	isJudged bool
	sent     *offered.List
}

// Priced returns the list that prices are for: what goes out, if that was read.
func (c *Call) Priced() *offered.List {
	o := &c.offers
	if o.isJudged {
		return o.sent
	}
	return o.client
}

// Goes notes what the first attempt has its vendor do, as it goes out.
func (c *Call) Goes(out *offered.List) { c.offers.isJudged, c.offers.sent = true, out }

// Offers returns what the client's request has a vendor do. It is read once.
func (c *Call) Offers() *offered.List {
	o, r := &c.offers, &c.Request
	if o.isRead {
		return o.client
	}
	o.isRead = true
	plainItems := !c.readsItems()
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
	if c.Operation.Path == "" && len(c.Key.Models) > 0 { // the path has the model, and the body may name another
		if named := gjson.ParseBytes(r.Sent.Get("model")).String(); named != "" && !sameModel(named, r.Model) {
			o.client = o.client.WithModel(offered.Model{Name: named, Member: "model"})
		}
	}
	return o.client
}

// readsItems reports whether something may ask what items of the conversation bring: expressions, rules about tools,
// rights, or money.
func (c *Call) readsItems() bool {
	all := c.Config
	return len(all.Rails)+len(all.Policies)+len(all.Caches)+len(all.RateLimits)+len(c.Key.Models) > 0 ||
		c.RulesOfKey().Budget
}

// NamesOthers reports whether a request of a key for some models names others, or may. The answer to an equal request
// of another key is not for it then.
func (c *Call) NamesOthers() bool {
	if len(c.Key.Models) == 0 {
		return false
	}
	l := c.Offers()
	return l != nil && len(l.Models) > 0
}

// sameModel reports whether a Gemini request names in its body the model of its path.
func sameModel(named, asked string) bool {
	named = strings.TrimPrefix(named, "models/")
	return named == asked || strings.HasSuffix(asked, "/"+named)
}

// RulesOfKey returns the rules for the requests of the key that are for no model.
func (c *Call) RulesOfKey() *access.Rules { return c.Derived().Rules.Rules(c.Key, "", "", "") }

// IsDeclared reports whether a guardrail judges a tool as the client declares it. What is a switch, or unknown, is
// judged as it goes out.
func IsDeclared(t *offered.Tool) bool { return t.Kind < offered.Switch }
