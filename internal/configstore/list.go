package configstore

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// List returns every object of a kind, sorted by name.
func (s *Store) List(ctx context.Context, kind configv1.Kind) ([]Entry, error) {
	r, err := s.read(ctx, clientv3.OpGet(directory(kind), clientv3.WithPrefix()))
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", kind.Plural, err)
	}
	return s.entries(r.Responses[0].GetResponseRange().GetKvs()), nil
}

// ListPage returns up to limit objects of a kind whose names come after a given one, in the order of List, and whether
// there are more. After need not be the name of an object; "" begins with the first.
func (s *Store) ListPage(ctx context.Context, kind configv1.Kind, after string, limit int) (entries []Entry, more bool,
	err error) {
	from := directory(kind)
	if after != "" {
		from = keyOf(kind, after) + "\x00"
	}
	r, err := s.read(ctx, clientv3.OpGet(from, clientv3.WithRange(clientv3.GetPrefixRangeEnd(directory(kind))),
		clientv3.WithLimit(int64(limit))))
	if err != nil {
		return nil, false, fmt.Errorf("list %s: %w", kind.Plural, err)
	}
	page := r.Responses[0].GetResponseRange()
	return s.entries(page.GetKvs()), page.GetMore(), nil
}

// Count returns how many objects of a kind there are.
func (s *Store) Count(ctx context.Context, kind configv1.Kind) (int64, error) {
	r, err := s.read(ctx, clientv3.OpGet(directory(kind), clientv3.WithPrefix(), clientv3.WithCountOnly()))
	if err != nil {
		return 0, fmt.Errorf("count %s: %w", kind.Plural, err)
	}
	return r.Responses[0].GetResponseRange().GetCount(), nil
}

// A Snapshot is the stored configuration at one revision of etcd.
type Snapshot struct {
	Revision int64
	// Entries are sorted by kind's path and name. They may be added to.
	Entries []Entry

	index map[Ref]int // of the entries that Find has seen
}

// Find returns the entry of an object, or nil. It is not safe for concurrent use.
func (s *Snapshot) Find(kind configv1.Kind, name string) *Entry {
	if s.index == nil {
		s.index = make(map[Ref]int, len(s.Entries))
	}
	for i := len(s.index); i < len(s.Entries); i++ {
		s.index[Ref{Kind: s.Entries[i].Kind.Name, Name: s.Entries[i].Name}] = i
	}
	if i, ok := s.index[Ref{Kind: kind.Name, Name: name}]; ok {
		return &s.Entries[i]
	}
	return nil
}

// Snapshot returns everything except objects of the given kinds, such as keys: there may be very many.
func (s *Store) Snapshot(ctx context.Context, except ...configv1.Kind) (*Snapshot, error) {
	var gets []clientv3.Op
	for _, r := range without(except...) {
		gets = append(gets, clientv3.OpGet(r.from, clientv3.WithRange(r.to)))
	}
	r, err := s.read(ctx, gets...)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	snapshot := &Snapshot{Revision: r.Header.Revision}
	for _, part := range r.Responses {
		snapshot.Entries = append(snapshot.Entries, s.entries(part.GetResponseRange().GetKvs())...)
	}
	return snapshot, nil
}

func (s *Store) entries(kvs []*mvccpb.KeyValue) []Entry {
	var entries []Entry
	kinds := kindsByPath()
	for _, kv := range kvs {
		kind, name, ok := kinds.split(string(kv.Key))
		if !ok {
			continue
		}
		object, err := s.decode(kind, name, kv.Value)
		entries = append(entries, Entry{Kind: kind, Name: name, Object: object, Revision: kv.ModRevision, Err: err})
	}
	return entries
}

// A span is the keys of etcd from one on, up to another that is not of it.
type span struct{ from, to string }

// without returns the configuration without the objects of some kinds, and without what else begins with their plural
// and a character before "0".
func without(except ...configv1.Kind) []span {
	except = slices.SortedFunc(slices.Values(except),
		func(a, b configv1.Kind) int { return strings.Compare(a.Plural, b.Plural) })
	var spans []span
	from := prefix
	for _, k := range except {
		spans = append(spans, span{from, prefix + k.Plural})
		from = prefix + k.Plural + "0" // the character after the slash
	}
	return append(spans, span{from, clientv3.GetPrefixRangeEnd(prefix)})
}

// directory returns the prefix of etcd's keys for objects of a kind.
func directory(kind configv1.Kind) string { return prefix + kind.Plural + "/" }
