package config

import (
	"context"
	"iter"
	"net/url"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/reflect/protoreflect"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/internal/configstore"
)

// filters are the fields by which objects that have them are chosen.
var filters = []protoreflect.Name{"organization", "project", "vendor", "provider", "role", "disabled"}

// List returns a page of the objects of a kind that are asked for and that the caller may see, and after which one the
// next page begins.
func (s *Service) List(ctx context.Context, kind configv1.Kind, asked adminapi.ListOptions) ([]configstore.Entry,
	string, error) {
	if wanted := seen(ctx, wantedOf(kind, asked)); wanted != nil {
		return s.search(ctx, kind, asked, wanted)
	}
	return s.page(ctx, kind, asked)
}

// seen narrows a filter to the objects that the caller may see. A nil filter accepts all.
func seen(ctx context.Context, wanted func(found) bool) func(found) bool {
	p, _ := authz.PrincipalOf(ctx)
	if p.Tenant.IsAll() {
		return wanted
	}
	return func(f found) bool { return p.Sees(f.object) && (wanted == nil || wanted(f)) }
}

// page returns a page of all objects of a kind, and after which one the next begins.
func (s *Service) page(ctx context.Context, kind configv1.Kind, asked adminapi.ListOptions) ([]configstore.Entry,
	string, error) {
	entries, more, err := s.options.Store.ListPage(ctx, kind, asked.After, asked.Limit)
	if err != nil || !more || len(entries) == 0 {
		return entries, "", err
	}
	return entries, entries[len(entries)-1].Name, nil
}

// wantedOf returns which objects are asked for, or nil for all. Parameters that are no field of the kind choose
// nothing.
func wantedOf(kind configv1.Kind, asked adminapi.ListOptions) func(found) bool {
	words := strings.Fields(strings.ToLower(asked.Query))
	fields := kind.New().ProtoReflect().Descriptor().Fields()
	want := map[protoreflect.FieldDescriptor]string{}
	for _, name := range filters {
		if fd := fields.ByName(name); fd != nil && asked.Filters[string(name)] != "" {
			want[fd] = asked.Filters[string(name)]
		}
	}
	if len(words) == 0 && len(want) == 0 {
		return nil
	}
	return func(f found) bool {
		for _, word := range words {
			if !strings.Contains(f.text, word) {
				return false
			}
		}
		for fd, value := range want {
			if f.object == nil || textOf(f.object.ProtoReflect().Get(fd), fd) != value {
				return false
			}
		}
		return true
	}
}

func textOf(v protoreflect.Value, fd protoreflect.FieldDescriptor) string {
	if fd.Kind() == protoreflect.EnumKind {
		return string(fd.Enum().Values().ByNumber(v.Enum()).Name())
	}
	return v.String()
}

// A found object is one that a search looks at.
type found struct {
	name   string
	sorts  string          // what the store sorts by
	object configv1.Object // nil if it cannot be read
	text   string          // what words are looked for in, in lower case
}

func newFound(name string, o configv1.Object) found {
	f := found{name: name, sorts: url.PathEscape(name), object: o, text: name}
	if name := configv1.DisplayName(o); name != "" {
		f.text += "\n" + name
	}
	if key, ok := o.(*configv1.Key); ok {
		f.text += "\n" + key.GetHint() + "\n" + key.GetRetired().GetHint()
	}
	f.text = strings.ToLower(f.text)
	return f
}

// search returns a page of the objects of a kind that the filter accepts, and the name after which the next page
// begins. Keys are searched in the control plane's copy, which may be a moment old, and then read.
func (s *Service) search(ctx context.Context, kind configv1.Kind, asked adminapi.ListOptions,
	wanted func(found) bool) ([]configstore.Entry, string, error) {
	var all []found
	if kind.Name == configv1.KeyKind().Name {
		all = s.keys.of(s.options.Keys())
	}
	if all == nil {
		stored, err := s.options.Store.List(ctx, kind)
		if err != nil {
			return nil, "", err
		}
		for _, e := range stored {
			all = append(all, newFound(e.Name, e.Object))
		}
	}
	var names []string
	next := ""
	after := url.PathEscape(asked.After)
	for _, f := range all {
		if f.sorts <= after || !wanted(f) {
			continue
		}
		if len(names) == asked.Limit {
			next = names[len(names)-1]
			break
		}
		names = append(names, f.name)
	}
	entries, err := s.options.Store.Named(ctx, kind, names)
	return entries, next, err
}

// A keyIndex is the keys sorted by name, as they were when somebody last searched.
type keyIndex struct {
	mu       sync.Mutex // guards what follows
	revision int64
	sorted   []found
}

// of returns the sorted keys, or nil if there are none. Whoever gets them does not change them.
func (x *keyIndex) of(revision int64, keys map[string]configv1.Object) []found {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.revision == revision && len(x.sorted) == len(keys) {
		return x.sorted
	}
	x.revision, x.sorted = revision, nil
	for name, o := range keys {
		x.sorted = append(x.sorted, newFound(name, o))
	}
	slices.SortFunc(x.sorted, func(a, b found) int { return strings.Compare(a.name, b.name) })
	return x.sorted
}

// KeysNamed yields the ids of the keys that the caller may see and whose text has some words, in lower case.
func (s *Service) KeysNamed(words []string, caller authz.Principal) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, key := range s.keys.of(s.options.Keys()) {
			if containsAll(key.text, words) && caller.Sees(key.object) && !yield(key.name) {
				return
			}
		}
	}
}

func containsAll(text string, words []string) bool {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}
