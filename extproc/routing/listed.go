package routing

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/access"
)

// An index has values that are computed once per configuration.
type index struct {
	// tuned are the fine-tuned models by "<provider>/<the provider's own name>". Their owners also matter if a client
	// uses that name.
	tuned map[string]*configv1.Model
	// listed are the models that GET /v1/models can show, sorted by name, each once.
	listed []listed
	size   int // of all of them in bytes, including commas
	// bare maps "<model>" to the sorted names "<provider>/<model>" that providers list.
	bare map[string][]string
	// hosts are those of the providers' endpoints.
	hosts map[string]host
}

// A listed model is one element of the answer to GET /v1/models.
type listed struct {
	name string
	text []byte // JSON
}

// Index computes the values that depend on providers, models and listings. Call it after a change of them. Without it,
// they are computed whenever they are needed.
func (t *Table) Index() { t.index = t.newIndex() }

func (t *Table) indexed() *index {
	if t.index == nil {
		return t.newIndex()
	}
	return t.index
}

func (t *Table) newIndex() *index {
	x := &index{tuned: map[string]*configv1.Model{}, bare: map[string][]string{}, hosts: map[string]host{}}
	for _, m := range t.Models {
		for _, target := range m.GetTargets() {
			if m.GetFineTuned() != nil {
				x.tuned[target.GetProvider()+"/"+target.GetModel()] = m
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.Models)) { // what is in order already is soon sorted
		m := t.Models[name]
		x.add(name, m.GetCreatedAt().GetSeconds(), m.Owner())
	}
	// Configured models come first, then models that the provider describes, then models that have only a name.
	shown := func(name string) bool { return t.Models[name] != nil || x.tuned[name] != nil }
	for _, name := range slices.Sorted(maps.Keys(t.Providers)) {
		p := t.Providers[name]
		x.addHost(name, p)
		for _, m := range t.Listings[name].GetModels() {
			full := name + "/" + m.GetId()
			if other, _ := t.unlisted(full); other != nil && !shown(full) {
				x.add(full, m.GetCreated(), cmp.Or(m.GetOwnedBy(), name))
				x.addBare(p, m.GetId(), full)
			}
		}
		for _, m := range p.Config.GetModels() {
			full := name + "/" + m
			if other, _ := t.unlisted(full); other != nil && !shown(full) {
				x.add(full, 0, name)
				x.addBare(p, m, full)
			}
		}
	}
	slices.SortStableFunc(x.listed, func(a, b listed) int { return strings.Compare(a.name, b.name) })
	x.listed = slices.CompactFunc(x.listed, func(a, b listed) bool { return a.name == b.name })
	return x
}

func (x *index) add(name string, created int64, owner string) {
	text := appendModel(nil, name, created, owner)
	x.listed, x.size = append(x.listed, listed{name, text}), x.size+len(text)+2
}

func (x *index) addBare(p *Provider, model, full string) {
	if !p.Config.GetFullNamesOnly() && !slices.Contains(x.bare[model], full) {
		x.bare[model] = append(x.bare[model], full)
	}
}

// find returns the JSON of a listed model, or nil.
func (x *index) find(name string) []byte {
	if i, ok := x.at(name); ok {
		return x.listed[i].text
	}
	return nil
}

// at returns the index of a model among the listed ones.
func (x *index) at(name string) (int, bool) {
	return slices.BinarySearchFunc(x.listed, name,
		func(l listed, name string) int { return strings.Compare(l.name, name) })
}

// createdUnknown is the creation time of models without a known one, in Unix seconds: 2020, before all of them. Some
// clients treat 0 as a missing model.
const createdUnknown = 1577836800

func appendModel(dst []byte, name string, created int64, owner string) []byte {
	dst = append(dst, `{"id":`...)
	dst = openai.AppendString(dst, name)
	dst = append(dst, `,"object":"model","created":`...)
	dst = strconv.AppendInt(dst, cmp.Or(created, createdUnknown), 10)
	dst = append(dst, `,"owned_by":`...)
	dst = openai.AppendString(dst, owner)
	return append(dst, '}')
}

// Model returns the object of GET /v1/models for a model, listed or not.
func (t *Table) Model(name string) []byte {
	if text := t.indexed().find(name); text != nil {
		return text
	}
	owner, _, _ := strings.Cut(name, "/") // the provider
	return appendModel(nil, name, 0, owner)
}

// AppendModels appends the listed models that a key may use, separated by commas.
func (t *Table) AppendModels(dst []byte, k *access.Client) []byte {
	index := t.indexed()
	if len(k.Models) == 0 {
		dst = slices.Grow(dst, index.size)
	}
	comma := ""
	for _, m := range index.listed {
		if t.mayUse(k, m.name) {
			dst = append(append(dst, comma...), m.text...)
			comma = ","
		}
	}
	return dst
}
