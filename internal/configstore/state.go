package configstore

import (
	"maps"
	"slices"
	"sync"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// A Ref names an object, which need not be there.
type Ref struct {
	Kind string // such as Provider; empty for other keys of etcd
	Name string
}

// A State is the whole configuration after one change of it. It and the objects in it must not be modified.
type State struct {
	// Revision is the newest change's, the same on every replica.
	Revision int64
	// Objects are the last good versions, by kind and name.
	Objects map[string]map[string]configv1.Object
	// Errors say which stored values are not good. Such an object is in Objects only if it once was good.
	Errors map[Ref]error
	// Invalid are stored objects that are not valid and have no known valid version. Nil is a value that cannot be
	// read.
	Invalid map[Ref]configv1.Object

	names map[string]*names // by kind; nil if they are to be sorted each time
}

// names are the names of a kind's objects. Successive states share them if no object was created or deleted between.
type names struct {
	once   sync.Once
	sorted []string
}

// All returns the objects of a kind, sorted by name, as in All[*configv1.Provider](state).
func All[T configv1.Object](s State) []T {
	var kind T
	objects, known := s.Objects[configv1.KindOf(kind).Name], s.names[configv1.KindOf(kind).Name]
	if known == nil {
		known = &names{}
	}
	known.once.Do(func() { known.sorted = slices.Sorted(maps.Keys(objects)) })
	all := make([]T, 0, len(objects))
	for _, name := range known.sorted {
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
	invalid  map[Ref]configv1.Object // that errs are about
	names    map[string]*names       // of good, by kind
	shared   map[string]bool         // kinds whose map the state shares with good: it is copied before it changes
}

func newView() *view {
	v := &view{good: map[string]map[string]configv1.Object{}, errs: map[Ref]error{},
		invalid: map[Ref]configv1.Object{}, names: map[string]*names{}, shared: map[string]bool{}}
	for _, k := range configv1.Kinds() {
		v.good[k.Name], v.names[k.Name] = map[string]configv1.Object{}, &names{}
	}
	return v
}

// changed moves the revision forward.
func (v *view) changed(revision int64) { v.revision = max(v.revision, revision) }

// put records a good object, or that the value is not good. The last good object then stays.
func (v *view) put(ref Ref, o configv1.Object, err error) {
	if err != nil {
		v.errs[ref], v.invalid[ref] = err, o
		return
	}
	delete(v.errs, ref)
	delete(v.invalid, ref)
	v.set(ref, o)
}

func (v *view) remove(ref Ref) {
	delete(v.errs, ref)
	delete(v.invalid, ref)
	v.set(ref, nil)
}

// set makes o what is good of an object; nil is nothing.
func (v *view) set(ref Ref, o configv1.Object) {
	_, known := v.good[ref.Kind][ref.Name]
	if !known && o == nil {
		return
	}
	if v.shared[ref.Kind] {
		v.good[ref.Kind], v.shared[ref.Kind] = maps.Clone(v.good[ref.Kind]), false
	}
	if known != (o != nil) {
		v.names[ref.Kind] = &names{}
	}
	if o == nil {
		delete(v.good[ref.Kind], ref.Name)
	} else {
		v.good[ref.Kind][ref.Name] = o
	}
}

// state returns what later changes do not reach.
func (v *view) state() State {
	for kind := range v.good {
		v.shared[kind] = true
	}
	invalid := maps.Clone(v.invalid)
	maps.DeleteFunc(invalid, func(ref Ref, _ configv1.Object) bool { return v.good[ref.Kind][ref.Name] != nil })
	return State{Revision: v.revision, Objects: maps.Clone(v.good), Errors: maps.Clone(v.errs), Invalid: invalid,
		names: maps.Clone(v.names)}
}
