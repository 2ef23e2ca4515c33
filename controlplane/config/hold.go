package config

import (
	"context"
	"fmt"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/approval"
	"github.com/modelgate/modelgate/internal/configstore"
)

// A held write is not made: it waits for a second person.
type held struct {
	configstore.Change
	action  string
	diff    string
	reasons []approval.Reason
	base    int64              // revision of the object as it is stored; 0: there is none
	shown   *adminapi.Approval // what the change says of it
}

// kindsThatWait are the kinds whose changes can wait. Containers come before what they contain.
func kindsThatWait() []string {
	return []string{configv1.KindOf((*configv1.Organization)(nil)).Name, configv1.KindOf((*configv1.Project)(nil)).Name,
		configv1.KeyKind().Name}
}

// hold takes out of a plan what waits for approval. The rules are those before the plan: a change that also changes
// them is judged by them.
func (a Approvals) hold(ctx context.Context, c change, p *Plan) error {
	reasons, err := a.reasons(ctx, c, p)
	if err != nil || len(reasons) == 0 {
		return err
	}
	kept := p.writes
	p.writes, p.written = nil, nil
	for _, w := range kept {
		of := configstore.Ref{Kind: w.Kind.Name, Name: w.Name}
		if reasons[of] == nil {
			p.write(w)
			continue
		}
		h := held{Change: w, reasons: reasons[of]}
		if e := p.before.Find(w.Kind, w.Name); e != nil {
			h.base = e.Revision
		}
		for i := range p.Changes {
			if ch := &p.Changes[i]; ch.Kind == of.Kind && ch.Name == of.Name {
				h.action, h.diff = ch.Action, ch.Diff
				h.shown = &adminapi.Approval{Action: ch.Action, Kind: ch.Kind, Name: ch.Name, Rules: h.rules(), Reason: h.reason()}
				ch.Action, ch.Approval = adminapi.Pending, h.shown
			}
		}
		p.held = append(p.held, h)
	}
	if len(p.writes) == 0 {
		return nil
	}
	if err := p.checkSet(); err != nil {
		h := p.held[0]
		return openai.CodeApprovalNeeded.New("%s %s needs a second person's approval (%s), and the rest of the change depends on it: %v. Send it alone first, and the rest when it is approved.",
			h.Kind.Name, h.Name, strings.Join(h.rules(), ", "), err)
	}
	return nil
}

func (h held) rules() []string {
	names := make([]string, len(h.reasons))
	for i, r := range h.reasons {
		names[i] = r.Rule.GetName()
	}
	return names
}

// reason is a sentence for each rule.
func (h held) reason() string {
	words := make([]string, len(h.reasons))
	for i, r := range h.reasons {
		words[i] = fmt.Sprintf("ApprovalRule %s: %s.", r.Rule.GetName(), r.Why)
	}
	return strings.Join(words, " ")
}

// reasons returns why writes of a plan wait, by object. What waits is not there yet for the objects that it contains.
func (a Approvals) reasons(ctx context.Context, c change, p *Plan) (map[configstore.Ref][]approval.Reason, error) {
	byKind := map[string][]configstore.Change{}
	for _, w := range p.writes {
		if w.Object != nil && !p.followed[configstore.Ref{Kind: w.Kind.Name, Name: w.Name}] {
			byKind[w.Kind.Name] = append(byKind[w.Kind.Name], w)
		}
	}
	all := map[configstore.Ref][]approval.Reason{}
	var rules []*configv1.ApprovalRule
	for _, kind := range kindsThatWait() {
		if len(byKind[kind]) == 0 {
			continue
		}
		if rules == nil {
			var err error
			if rules, err = a.approvalRules(ctx, c, p); err != nil || len(rules) == 0 {
				return nil, err
			}
		}
		for _, w := range byKind[kind] {
			why := approval.Needed(rules, approval.Change{Was: p.stored(w.Kind, w.Name), Now: w.Object,
				At: time.Now(), Before: tenantsIn(p.stored),
				After: tenantsIn(func(k configv1.Kind, name string) configv1.Object {
					e := p.Entry(k, name)
					if all[configstore.Ref{Kind: k.Name, Name: name}] != nil {
						e = p.before.Find(k, name)
					}
					if e == nil {
						return nil
					}
					return e.Object
				})})
			if len(why) > 0 {
				all[configstore.Ref{Kind: w.Kind.Name, Name: w.Name}] = why
			}
		}
	}
	return all, nil
}

// tenantsIn returns the tenants that a function finds.
func tenantsIn(find func(configv1.Kind, string) configv1.Object) approval.Tenants {
	return approval.Tenants{
		Organization: func(name string) *configv1.Organization {
			o, _ := find(configv1.KindOf((*configv1.Organization)(nil)), name).(*configv1.Organization)
			return o
		},
		Project: func(name string) *configv1.Project {
			o, _ := find(configv1.KindOf((*configv1.Project)(nil)), name).(*configv1.Project)
			return o
		},
	}
}

// approvalRules returns the rules that are in force. For a change of one key alone it reads them, and the tenants of
// the key before and after. One that cannot be read lets nothing through.
func (a Approvals) approvalRules(ctx context.Context, c change, p *Plan) ([]*configv1.ApprovalRule, error) {
	kind := configv1.KindOf((*configv1.ApprovalRule)(nil))
	entries := p.before.Entries
	if c.alone() {
		var err error
		if entries, err = a.service.options.Store.List(ctx, kind); err != nil {
			return nil, err
		}
	}
	var rules []*configv1.ApprovalRule
	for _, e := range entries {
		if e.Kind.Name != kind.Name {
			continue
		}
		if e.Err != nil {
			return nil, configv1.Errors{unreadable(e)}
		}
		if r, ok := e.Object.(*configv1.ApprovalRule); ok && !r.GetDisabled() {
			rules = append(rules, r)
		}
	}
	if !c.alone() || len(rules) == 0 {
		return rules, nil
	}
	of := c.refs[0]
	for _, o := range []configv1.Object{p.stored(of.Kind, of.Name), p.Entry(of.Kind, of.Name).Object} {
		k := asKey(o)
		for _, t := range tenantsOf(k) {
			if p.before.Find(t.Kind, t.Name) != nil {
				continue
			}
			if err := a.service.readEach(ctx, p.before, []Ref{t}); err != nil {
				return nil, err
			}
		}
	}
	return rules, nil
}
