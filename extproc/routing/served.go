package routing

import (
	"crypto/sha256"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// Served identifies who serves a model, and how: it changes with its targets, with their providers, except for their
// credentials, and with what the catalog says of them.
func (t *Table) Served(name string) []byte {
	sum := sha256.New()
	add := func(m proto.Message) {
		text, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if err != nil {
			text = []byte(err.Error())
		}
		_, _ = sum.Write(append(text, '|')) // a hash never fails
	}
	targets := t.Models[name].GetTargets()
	if p, model := t.unlisted(name); p != nil && targets == nil {
		targets = []*configv1.Target{{Provider: p.Config.GetName(), Model: model}}
	}
	add(t.Models[name])
	for _, target := range targets {
		add(target)
		p := t.Providers[target.GetProvider()]
		if p == nil {
			continue
		}
		config := proto.CloneOf(p.Config)
		config.Credential = nil
		add(config)
		if t.Catalog != nil {
			add(t.Catalog.Facts(p.Vendor.Name, target.GetModel()))
		}
	}
	return sum.Sum(nil)
}

// Reached returns the targets that a request for a model may go to, in no order.
func (t *Table) Reached(model string) []Target {
	if m := t.Models[model]; m != nil {
		return t.targets(m, func(uint32) uint32 { return 0 })
	}
	if p, name := t.unlisted(model); p != nil {
		return []Target{{Provider: p, Model: name}}
	}
	return nil
}
