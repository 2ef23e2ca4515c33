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

// An index is what is worked out of a configuration once, for all keys.
type index struct {
	// tuned are the fine-tuned models by "<provider>/<the provider's own name>": whose they are also counts where they
	// are asked for by that.
	tuned map[string]*configv1.Model
	// listed are the models that GET /v1/models shows to those who may use them, sorted by name, each once.
	listed []listed
	size   int // of all of them, in bytes, with room for commas
	// bare are the names of what providers list, "<provider>/<model>", by "<model>", sorted.
	bare map[string][]string
}

// A listed model is one element of the answer to GET /v1/models.
type listed struct {
	name string
	text []byte // JSON
}

// Index works out, once for all, what depends on providers, models and listings, after those have changed. Without it
// that is done wherever it is needed.
func (t *Table) Index() { t.index = t.newIndex() }

func (t *Table) indexed() *index {
	if t.index == nil {
		return t.newIndex()
	}
	return t.index
}

func (t *Table) newIndex() *index {
	x := &index{tuned: map[string]*configv1.Model{}, bare: map[string][]string{}}
	for _, m := range t.Models {
		for _, target := range m.GetTargets() {
			if m.GetFineTuned() != nil {
				x.tuned[target.GetProvider()+"/"+target.GetModel()] = m
			}
		}
	}
	for name, m := range t.Models {
		x.add(name, m.GetCreatedAt().GetSeconds(), m.Owner())
	}
	// What is configured goes before what a provider says, and that before what only its name is known of.
	shown := func(name string) bool { return t.Models[name] != nil || x.tuned[name] != nil }
	for _, name := range slices.Sorted(maps.Keys(t.Providers)) {
		p := t.Providers[name]
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

// at returns where a model is among those that are listed.
func (x *index) at(name string) (int, bool) {
	return slices.BinarySearchFunc(x.listed, name,
		func(l listed, name string) int { return strings.Compare(l.name, name) })
}

// createdUnknown is told as the time of models of which nobody says when they were made, in Unix seconds: 2020, before
// all of them. Some clients take 0 for a model that is not there.
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

// Model returns what GET /v1/models says of a model, listed or not.
func (t *Table) Model(name string) []byte {
	if text := t.indexed().find(name); text != nil {
		return text
	}
	owner, _, _ := strings.Cut(name, "/") // its provider
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
