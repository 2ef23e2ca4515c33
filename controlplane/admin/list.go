package admin

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/reflect/protoreflect"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// Sizes of pages.
const (
	normalPage = 100
	maxPage    = 1000
)

// filters are the fields by which objects that have them are chosen.
var filters = []protoreflect.Name{"organization", "project", "vendor", "provider", "role", "disabled"}

func (s *server) list(w http.ResponseWriter, r *http.Request) error {
	kind, err := kindOf(r)
	if err != nil {
		return err
	}
	if err := authz.NeedsKind(r.Context(), kind, authz.ReadScope(kind)); err != nil {
		return err
	}
	asked, err := optionsOf(r)
	if err != nil {
		return err
	}
	var entries []configstore.Entry
	page := adminapi.ItemPage{Items: []adminapi.Item{}}
	if wanted := seen(r.Context(), wantedOf(kind, asked)); wanted != nil {
		entries, page.Next, err = s.search(r.Context(), kind, asked, wanted)
	} else {
		entries, page.Next, err = s.page(r.Context(), kind, asked)
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		page.Items = append(page.Items, s.item(r.Context(), e))
	}
	return httpapi.WriteJSON(w, http.StatusOK, page)
}

// seen restricts what is wanted, which is nil for all, to what the caller may see.
func seen(ctx context.Context, wanted func(found) bool) func(found) bool {
	p, _ := authz.PrincipalOf(ctx)
	if p.Tenant.IsAll() {
		return wanted
	}
	return func(f found) bool { return p.Sees(f.object) && (wanted == nil || wanted(f)) }
}

// page returns a page of all objects of a kind, and after which one the next begins.
func (s *server) page(ctx context.Context, kind configv1.Kind, asked adminapi.ListOptions) ([]configstore.Entry,
	string, error) {
	entries, more, err := s.config.Store.ListPage(ctx, kind, asked.After, asked.Limit)
	if err != nil || !more || len(entries) == 0 {
		return entries, "", err
	}
	return entries, entries[len(entries)-1].Name, nil
}

// optionsOf reads the query of a list.
func optionsOf(r *http.Request) (adminapi.ListOptions, error) {
	o := adminapi.ListOptions{Limit: normalPage, Filters: map[string]string{}}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return o, badQuery(err)
	}
	for name, values := range query {
		if len(values) > 1 {
			return o, givenTwice(name)
		}
		switch value := values[0]; name {
		case "after":
			o.After = value
		case "q":
			o.Query = value
		case "limit":
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 || n > maxPage {
				return o, openai.CodeInvalidValue.On("limit",
					"The parameter limit must be a number between 1 and %d.", maxPage)
			}
			o.Limit = n
		case "disabled":
			if value != "true" && value != "false" {
				return o, openai.CodeInvalidValue.On(name, "The parameter disabled must be true or false.")
			}
			o.Filters[name] = value
		case "start", "end":
			if _, err := httpapi.UnixTime(name, value); err != nil {
				return o, err
			}
			o.Filters[name] = value
		default:
			o.Filters[name] = value
		}
	}
	if strings.ContainsFunc(o.After+o.Query, func(c rune) bool { return c < ' ' }) {
		return o, openai.CodeInvalidValue.New(
			"The parameters after and q must not contain control characters.")
	}
	return o, nil
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

// A found object is what a search looks at.
type found struct {
	name   string
	sorts  string          // what the store sorts by
	object configv1.Object // nil where it cannot be read
	text   string          // what words are looked for in, in lower case
}

func newFound(name string, o configv1.Object) found {
	f := found{name: name, sorts: url.PathEscape(name), object: o, text: name}
	if named, ok := o.(interface{ GetDisplayName() string }); ok {
		f.text += "\n" + named.GetDisplayName()
	}
	if key, ok := o.(*configv1.Key); ok {
		f.text += "\n" + key.GetHint() + "\n" + key.GetRetired().GetHint()
	}
	f.text = strings.ToLower(f.text)
	return f
}

// search returns a page of those objects of a kind that are wanted, and after which one the next begins. Keys are
// looked for in what the control plane has read, which may be a moment old, and then read.
func (s *server) search(ctx context.Context, kind configv1.Kind, asked adminapi.ListOptions,
	wanted func(found) bool) ([]configstore.Entry, string, error) {
	var all []found
	if kind.Name == configv1.KeyKind().Name {
		all = s.keys.of(s.config.Plane.Keys())
	}
	if all == nil {
		stored, err := s.config.Store.List(ctx, kind)
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
	entries, err := s.config.Store.Named(ctx, kind, names)
	return entries, next, err
}

// A keyIndex is the keys sorted by name, as they were when somebody last searched.
type keyIndex struct {
	mu       sync.Mutex // guards what follows
	revision int64
	sorted   []found
}

// of returns the sorted keys, or nil where there are none. Whoever gets them does not change them.
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
