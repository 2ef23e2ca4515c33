package controlplane

import (
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/xds"
	"github.com/modelgate/modelgate/internal/configstore"
)

// A keyBook finds the keys that have changed: there may be very many, and each configuration has all of them. It is
// used by one goroutine.
type keyBook struct {
	published map[string]*configv1.Key
}

// changes returns the keys that have changed, nil for removed ones, and the errors of keys. A key with an error
// stays as it was.
func (b *keyBook) changes(state configstore.State) (map[string]*configv1.Key, []xds.ObjectError) {
	changed := map[string]*configv1.Key{}
	var errs []xds.ObjectError
	now := state.Objects[xds.KindKey]
	for name, o := range now {
		k := o.(*configv1.Key)
		if b.published[name] == k {
			continue
		}
		if err := xds.CheckKey(k); err != nil {
			errs = append(errs, xds.ObjectError{Object: xds.Object{Kind: xds.KindKey, Name: name}, Err: err})
			continue
		}
		changed[name], b.published[name] = k, k
	}
	for name := range b.published {
		if now[name] == nil {
			changed[name] = nil
			delete(b.published, name)
		}
	}
	return changed, errs
}
