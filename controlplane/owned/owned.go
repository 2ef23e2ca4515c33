// Package owned knows by what objects are declared: by the admin API and files, or by something else, such as
// Kubernetes. Nothing overwrites an object of another silently.
//
// An object without an owner is the admin API's. Whoever reads an empty owner as "nobody's" overwrites it.
package owned

import (
	"context"
	"time"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/secret"
)

// A Declared object is what something other than the admin API and files says that an object is to be.
type Declared struct {
	Kind   configv1.Kind
	Name   string
	Object configv1.Object // nil: there is to be none
	Owner  configstore.Owner
	Take   bool // it may be the admin API's
	// Secret is what authenticates with a Key or an AdminToken. The one before stays good for Grace.
	Secret secret.Value
	Grace  time.Duration
}

// Ref names the object.
func (d Declared) Ref() configstore.Ref { return configstore.Ref{Kind: d.Kind.Name, Name: d.Name} }

type takingOver struct{}

// TakingOver returns a context in which changes may be of objects that something else declares. These are then the
// admin API's.
func TakingOver(ctx context.Context) context.Context {
	return context.WithValue(ctx, takingOver{}, true)
}

// An Ownership is by what the objects of a change are declared, and what becomes of it.
type Ownership struct {
	owners   map[configstore.Ref]configstore.Owner
	revision int64 // at which that was so
	declared map[configstore.Ref]Declared
	takes    bool // objects that something else declares
	approved bool // the change was looked at when it was asked for
	set      map[configstore.Ref]configstore.Owner
}

// A Question is which owners a change needs to know.
type Question struct {
	Alone    *configstore.Ref // only this one; nil: all
	Declared map[configstore.Ref]Declared
	Approved bool // by a second person
}

// Read reads them.
func Read(ctx context.Context, store *configstore.Store, q Question) (*Ownership, error) {
	takes, _ := ctx.Value(takingOver{}).(bool)
	o := &Ownership{declared: q.Declared, takes: takes, approved: q.Approved,
		set: map[configstore.Ref]configstore.Owner{}}
	var err error
	if q.Alone == nil {
		o.owners, o.revision, err = store.OwnersOf(ctx)
		return o, err
	}
	owner, revision, err := store.OwnerOf(ctx, *q.Alone)
	o.owners, o.revision = map[configstore.Ref]configstore.Owner{*q.Alone: owner}, revision
	return o, err
}

// Elsewhere reports whether something else declares an object.
func (o *Ownership) Elsewhere(kind configv1.Kind, name string) bool {
	return o.owners[configstore.Ref{Kind: kind.Name, Name: name}].By != ""
}

// By returns by what the change declares an object; "" for one of the admin API or of a file.
func (o *Ownership) By(kind, name string) string {
	return o.declared[configstore.Ref{Kind: kind, Name: name}].Owner.By
}

// MayWrite refuses a write of what is another's. Stored says that the object is there, and changes that it would be
// another one.
func (o *Ownership) MayWrite(ref configstore.Ref, stored, changes bool) error {
	owner, d := o.owners[ref], o.declared[ref]
	switch {
	case o.approved:
	case d.Owner.By == "":
		return o.mayAPI(ref, owner, changes)
	case owner.By != "" && owner.By != d.Owner.By:
		return openai.CodeDeclaredElsewhere.New("%s %s is declared by %s.", ref.Kind, ref.Name, owner.By)
	case owner.By == "" && stored && !d.Take:
		return openai.CodeDeclaredElsewhere.New(
			"%s %s belongs to the admin API or a file. Take it over with the annotation modelgate.dev/take-over: \"true\", or use another name.",
			ref.Kind, ref.Name)
	case d.Object == nil:
		o.set[ref] = configstore.Owner{}
	case owner != d.Owner:
		o.set[ref] = d.Owner
	}
	return nil
}

// mayAPI is MayWrite for the admin API and files.
func (o *Ownership) mayAPI(ref configstore.Ref, owner configstore.Owner, changes bool) error {
	switch {
	case owner.By == "", !changes:
		return nil
	case !o.takes:
		return openai.CodeDeclaredElsewhere.New(
			"%s %s is declared by %s. Change it there, or take it over with take_over=true (--take-over).",
			ref.Kind, ref.Name, owner.By)
	}
	o.set[ref] = configstore.Owner{}
	return nil
}

// Writes returns the writes by which owners change.
func (o *Ownership) Writes() (configstore.Also, error) {
	return configstore.SetOwners(o.set, o.revision)
}
