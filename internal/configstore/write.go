package configstore

import (
	"context"
	"fmt"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// groupSize is how many operations one transaction of a nest has: etcd counts 128 along each path from the outermost
// inward (its --max-txn-ops), which is enough for three, and so for 64,000 changes.
const groupSize = 40

// maxRequest is what etcd takes at once, less what is around operations.
const maxRequest = 1_560_000

// comparedAlone is how many keys are compared each for itself. Of more, all there are must be as they were.
const comparedAlone = 32

// overhead is more than the size of an operation in a request besides its key and value.
const overhead = 64

// A Change is a write of one object, or the deletion of one where Object is nil.
type Change struct {
	Kind   configv1.Kind
	Name   string
	Object configv1.Object
}

// Also is what else is done with changes. Its keys are not of the configuration, and its size comes on top of
// MaxBytes.
type Also struct {
	// If must be so as well.
	If []clientv3.Cmp
	// Now is done in the transaction that decides, also if the changes are staged: it is small.
	Now []clientv3.Op
	// With is done with the changes: of staged ones, in pieces.
	With []clientv3.Op
}

// Unchanged demands that an object is as it was read.
func Unchanged(e Entry) Also { return Also{If: unchanged(keyOf(e.Kind, e.Name), e.Revision)} }

// NoKeySince demands that no key was changed after a revision.
func NoKeySince(revision int64) Also {
	return Also{If: []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(keyVersionKey), "<", revision+1)}}
}

// merge joins several into one.
func merge(also []Also) (all Also) {
	for _, a := range also {
		all.If, all.Now = append(all.If, a.If...), append(all.Now, a.Now...)
		all.With = append(all.With, a.With...)
	}
	return all
}

// Put stores an object where its revision is still the expected one, and all that also says is so, and returns its new
// revision. Expected 0 means that the object must not be there yet, and AnyRevision that it does not matter. The error
// is ErrConflict, ErrTooLarge, or what is wrong with the object.
func (s *Store) Put(ctx context.Context, o configv1.Object, expected int64, also ...clientv3.Cmp) (int64, error) {
	kind := configv1.KindOf(o)
	c := Change{Kind: kind, Name: o.GetName(), Object: o}
	op, _, err := s.op(c)
	if err != nil {
		return 0, err
	}
	compare := append(unchanged(keyOf(kind, o.GetName()), expected), also...)
	return s.commit(ctx, "store "+configv1.Label(o), compare, append(versions(c), op)...)
}

// Delete removes an object where its revision is still the expected one, or whatever it is with AnyRevision. The error
// is ErrNotFound or ErrConflict.
func (s *Store) Delete(ctx context.Context, kind configv1.Kind, name string, expected int64) (int64, error) {
	key := keyOf(kind, name)
	compare := unchanged(key, expected)
	if expected == AnyRevision {
		compare = []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), ">", 0)}
	}
	revision, err := s.commit(ctx, "delete "+kind.Name+" "+name, compare,
		append(versions(Change{Kind: kind}), clientv3.OpDelete(key))...)
	if err != nil && expected == AnyRevision {
		if _, getErr := s.Get(ctx, kind, name); getErr != nil {
			return 0, getErr
		}
	}
	return revision, err
}

// Apply makes all changes at once or none, and returns a revision: a follower that has reached it has all changes.
// They are one transaction if they fit, and otherwise staged. Base is the [Snapshot] revision on which the changes
// were decided. If the configuration has changed since, also in parts that the Snapshot left out, or a condition in
// also does not hold, the error is ErrConflict. Every object must be changed at most once. The error may be
// ErrUnfinished.
func (s *Store) Apply(ctx context.Context, base int64, changes []Change, also ...Also) (int64, error) {
	more := merge(also)
	var ops []clientv3.Op
	total := 0
	for _, c := range changes {
		op, size, err := s.op(c)
		if err != nil {
			return 0, err
		}
		total += size
		ops = append(ops, op)
	}
	whole := total
	for _, op := range slices.Concat(more.Now, more.With) {
		whole += len(op.ValueBytes())
	}
	doing, compare := fmt.Sprintf("apply %d changes", len(changes)), append(since(base, changes), more.If...)
	if total <= MaxBytes && whole <= maxRequest {
		ops = slices.Concat(more.Now, nest(append(ops, more.With...)), versions(changes...))
		return s.commit(ctx, doing, compare, ops...)
	}
	revision, err := s.stage(ctx, compare, more.Now, append(ops, more.With...))
	if err != nil {
		return revision, fmt.Errorf("%s: %w", doing, err)
	}
	return revision, nil
}

// nest groups operations if there are more than a transaction has.
func nest(ops []clientv3.Op) []clientv3.Op {
	for len(ops) > groupSize {
		var groups []clientv3.Op
		for group := range slices.Chunk(ops, groupSize) {
			groups = append(groups, clientv3.OpTxn(nil, group, nil))
		}
		ops = groups
	}
	return ops
}

// Swap makes one change where the revision of its object is still the expected one, as Put and Delete do, and also in
// the same transaction. Expected cannot be AnyRevision. The error is ErrConflict, ErrTooLarge, or what is wrong with
// the object.
func (s *Store) Swap(ctx context.Context, c Change, expected int64, also ...Also) (int64, error) {
	op, _, err := s.op(c)
	if err != nil {
		return 0, err
	}
	more := merge(also)
	return s.commit(ctx, "change "+c.Kind.Name+" "+c.Name, append(unchanged(keyOf(c.Kind, c.Name), expected), more.If...),
		slices.Concat([]clientv3.Op{op}, more.Now, more.With, versions(c))...)
}

// Beside does what changes nothing of the configuration, while no staged changes are being made. The error is
// ErrConflict if what also demands is not so.
func (s *Store) Beside(ctx context.Context, also ...Also) (int64, error) {
	more := merge(also)
	return s.commit(ctx, "write beside the configuration", more.If, nest(slices.Concat(more.Now, more.With))...)
}

// ReadBeside reads keys that are written beside objects.
func (s *Store) ReadBeside(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	return s.etcd.Get(ctx, key, opts...)
}

// Remove makes changes that are deletions, in an etcd that is full: such takes no other. Each object must be as it was
// in before. The version of the configuration stays as it is, so that a control plane that starts before the next
// change numbers it as it was.
func (s *Store) Remove(ctx context.Context, before *Snapshot, changes []Change) (int64, error) {
	var compare []clientv3.Cmp
	var ops []clientv3.Op
	for _, c := range changes {
		key, stored := keyOf(c.Kind, c.Name), before.Find(c.Kind, c.Name)
		if stored == nil || c.Object != nil {
			return 0, fmt.Errorf("delete %s %s: %w", c.Kind.Name, c.Name, ErrConflict)
		}
		compare = append(compare, unchanged(key, stored.Revision)...)
		ops = append(ops, clientv3.OpDelete(key))
	}
	return s.commit(ctx, fmt.Sprintf("delete %d objects", len(changes)), compare, ops...)
}

// since compares what changes may depend on with a revision: everything but keys, on which nothing depends but changes
// of keys. There may be very many, and etcd reads all that it compares.
func since(base int64, changes []Change) []clientv3.Cmp {
	var compare []clientv3.Cmp
	later := func(from, to string) {
		compare = append(compare, clientv3.Compare(clientv3.ModRevision(from).WithRange(to), "<", base+1))
	}
	for _, r := range without(configv1.KeyKind()) {
		later(r.from, r.to)
	}
	ofKeys := func(c Change) bool { return c.Kind.Name == configv1.KeyKind().Name }
	if len(slices.DeleteFunc(slices.Clone(changes), func(c Change) bool { return !ofKeys(c) })) > comparedAlone {
		later(keyVersionKey, clientv3.GetPrefixRangeEnd(directory(configv1.KeyKind())))
		return compare
	}
	for i, c := range changes {
		if !ofKeys(c) {
			continue
		}
		if !slices.ContainsFunc(changes[:i], ofKeys) {
			later(keyVersionKey, keyVersionKey+"\x00") // so that a key which was deleted in the meantime does not come back
		}
		key := keyOf(c.Kind, c.Name)
		later(key, key+"\x00")
	}
	return compare
}

// versions returns the operations by which the revision of the configuration moves, also for a deletion.
func versions(changes ...Change) []clientv3.Op {
	var ops []clientv3.Op
	ofKeys := func(c Change) bool { return c.Kind.Name == configv1.KeyKind().Name }
	if slices.ContainsFunc(changes, ofKeys) {
		ops = append(ops, clientv3.OpPut(keyVersionKey, ""))
	}
	if !slices.ContainsFunc(changes, ofKeys) || slices.ContainsFunc(changes, func(c Change) bool { return !ofKeys(c) }) {
		ops = append(ops, clientv3.OpPut(versionKey, ""))
	}
	return ops
}

// op returns the operation of a change and about the size that it has in a request.
func (s *Store) op(c Change) (clientv3.Op, int, error) {
	key := keyOf(c.Kind, c.Name)
	if c.Object == nil {
		return clientv3.OpDelete(key), len(key) + overhead, nil
	}
	if err := s.validate(c.Object); err != nil {
		return clientv3.Op{}, 0, err
	}
	value, err := configv1.Marshal(c.Object)
	if err != nil {
		return clientv3.Op{}, 0, err
	}
	if len(value) > MaxBytes {
		return clientv3.Op{}, 0, fmt.Errorf("%s has %d bytes: %w", configv1.Label(c.Object), len(value), ErrTooLarge)
	}
	return clientv3.OpPut(key, string(value)), len(value) + len(key) + overhead, nil
}

func unchanged(key string, expected int64) []clientv3.Cmp {
	if expected == AnyRevision {
		return nil
	}
	return []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", expected)}
}

// commit makes a transaction while no staged changes are being made.
func (s *Store) commit(ctx context.Context, doing string, compare []clientv3.Cmp, ops ...clientv3.Op) (int64, error) {
	compare = append(compare, clientv3.Compare(clientv3.CreateRevision(RestoringKey), "=", 0))
	for {
		r, err := s.etcd.Txn(ctx).If(compare...).Then(ops...).Else(clientv3.OpGet(RestoringKey)).Commit()
		if err != nil {
			return 0, fmt.Errorf("%s: %w", doing, err)
		}
		if r.Succeeded {
			return r.Header.Revision, nil
		}
		_, is, err := marked(r.Responses[0].GetResponseRange().GetKvs())
		if is {
			err = Settle(ctx, s.etcd)
		} else if err == nil {
			err = ErrConflict
		}
		if err != nil {
			return 0, fmt.Errorf("%s: %w", doing, err)
		}
	}
}
