package configstore

import (
	"maps"
	"slices"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// A Ref names an object, which need not be there.
type Ref struct {
	Kind string // such as Provider; empty for a key of etcd that is of no object
	Name string
}

// A State is the whole configuration after one change of it. It and the objects in it must not be modified.
type State struct {
	// Revision is that of the newest change, the same on every replica.
	Revision int64
	// Objects are the last good versions, by kind and name.
	Objects map[string]map[string]configv1.Object
	// Errors say which stored values are not good. Such an object is in Objects only where it once was good.
	Errors map[Ref]error
}

// All returns the objects of a kind, sorted by name, as in All[*configv1.Provider](state).
func All[T configv1.Object](s State) []T {
	var kind T
	objects := s.Objects[configv1.KindOf(kind).Name]
	all := make([]T, 0, len(objects))
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		all = append(all, objects[name].(T))
	}
	return all
}

// A view is the state as it is being built from what etcd says.
type view struct {
	revision int64
	root     int64 // revision at which the root secret was claimed, or 0
	good     map[string]map[string]configv1.Object
	errs     map[Ref]error
}

func newView() *view {
	v := &view{good: map[string]map[string]configv1.Object{}, errs: map[Ref]error{}}
	for _, k := range configv1.Kinds() {
		v.good[k.Name] = map[string]configv1.Object{}
	}
	return v
}

// changed moves the revision forward.
func (v *view) changed(revision int64) { v.revision = max(v.revision, revision) }

// put records a good object, or that the value is not good. The last good object then stays.
func (v *view) put(ref Ref, o configv1.Object, err error) {
	if err != nil {
		v.errs[ref] = err
		return
	}
	delete(v.errs, ref)
	v.good[ref.Kind][ref.Name] = o
}

func (v *view) remove(ref Ref) {
	delete(v.errs, ref)
	delete(v.good[ref.Kind], ref.Name)
}

// state returns a copy that later changes do not reach.
func (v *view) state() State {
	s := State{Revision: v.revision, Objects: map[string]map[string]configv1.Object{}, Errors: maps.Clone(v.errs)}
	for kind, objects := range v.good {
		s.Objects[kind] = maps.Clone(objects)
	}
	return s
}
