package kubernetes

import (
	"context"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/modelgate/modelgate/api/config/options"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/configstore"
)

// kept looks at the version of a tenant's object that stays in force while a later one is not accepted. It returns the
// grants by which that version refers to other namespaces, and why it has to end: a grant is gone.
func (r *reconciler) kept(ctx context.Context, k key, kind configv1.Kind, name string) (by []key, lost error) {
	stored, err := r.options.Store.Get(ctx, kind, name)
	if err != nil || stored.Object == nil {
		return nil, nil
	}
	owners := r.options.Owners.All()
	references(stored.Object.ProtoReflect(), func(kind, name string) {
		at := key{kind, r.options.Platform, name}
		if of, ok := keyOf(kind, owners[configstore.Ref{Kind: kind, Name: name}]); ok {
			at = of
		}
		if at.namespace == k.namespace || strings.HasPrefix(name, k.namespace+between) {
			return
		}
		by = append(by, key{kind: grants, namespace: at.namespace})
		if no := r.watches.refers(k, at.kind, at.namespace, at.name); no != nil {
			lost = no
		}
	})
	return by, lost
}

// references calls f for each name of another object in a message.
func references(m protoreflect.Message, f func(kind, name string)) {
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		kind := options.Of(fd).GetRefers()
		if fd.IsMap() || kind == "" && fd.Message() == nil {
			return true
		}
		one := func(v protoreflect.Value) {
			if kind != "" {
				f(kind, v.String())
			} else {
				references(v.Message(), f)
			}
		}
		if !fd.IsList() {
			one(v)
			return true
		}
		for i := range v.List().Len() {
			one(v.List().Get(i))
		}
		return true
	})
}
