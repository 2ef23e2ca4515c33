package kubernetes

import (
	"context"
	"errors"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/modelgate/modelgate/api/config/crd"
	"github.com/modelgate/modelgate/controlplane/owned"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/timing"
)

// workers is how many requests to the API server are made at the same time.
const workers = 32

// A reconciler makes configuration of the objects in its queue.
type reconciler struct {
	options Options
	held    clientv3.Cmp // that this control plane leads
	queue   *queue
	watches *watches
	needs   *needs
	status  *statuses
	refused map[key]bool   // what is not as its object says; run alone uses it
	names   map[key]string // in the gateway, of objects that there are; likewise
	then    func()         // is called when something has changed
}

// An outcome is what became of an object, or will when what it declares is written.
type outcome struct {
	key
	object   *unstructured.Unstructured // nil: it is deleted
	declared *owned.Declared            // nil: err says why
	secret   string                     // name of the Secret that was made
	owned    bool                       // a version of it is in force already
	result
}

// ends reports whether nothing of the object may stay in force.
func (o *outcome) ends() bool {
	r, ok := errors.AsType[*refusal](o.err)
	return ok && r.ends
}

// A result is what became of a declared object.
type result struct {
	err      error
	held     string // why it waits for approval
	revision int64
}

// run works until ctx ends.
func (r *reconciler) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := r.options.Ready(); err != nil {
			_ = timing.Sleep(ctx, time.Second) // its end ends the loop
			continue
		}
		keys := r.queue.take(ctx, gather, atOnce)
		if len(keys) == 0 {
			continue
		}
		if err := r.step(ctx, keys); err != nil && ctx.Err() == nil {
			r.options.Log.Warn("objects of Kubernetes are looked at again", zap.Int("objects", len(keys)), zap.Error(err))
			_ = timing.Sleep(ctx, time.Second)
			r.queue.add(keys...)
		}
	}
}

// wake queues what has to be looked at although it has not changed, until ctx ends.
func (r *reconciler) wake(ctx context.Context) {
	tick := time.NewTicker(again)
	defer tick.Stop()
	for {
		changed := r.options.Owners.Changed()
		select {
		case <-ctx.Done():
			return
		case <-changed: // gather changes: our own are many
			if timing.Sleep(ctx, time.Second) != nil {
				return
			}
			r.queue.add(r.status.lost(ctx)...)
		case <-tick.C:
			r.queue.add(r.status.unfinished()...)
			r.queue.add(r.left()...)
		}
	}
}

// left returns what is declared by objects that are not there, and whose Secret is due.
func (r *reconciler) left() (keys []key) {
	for ref, o := range r.options.Owners.All() {
		k, ok := keyOf(ref.Kind, o)
		if !ok || !r.watches.watched(k.namespace) || !r.watches.of(r.watches.placeOf(k)).HasSynced() {
			continue
		}
		u := r.watches.get(k)
		if u == nil {
			keys = append(keys, k)
		} else if generated(kindNamed(ref.Kind)) {
			if s := r.watches.get(key{secrets, k.namespace, secretName(u)}); s != nil && due(u, s, time.Now()) {
				keys = append(keys, k)
			}
		}
	}
	return keys
}

// keyOf returns the object of Kubernetes that is an owner.
func keyOf(kind string, o configstore.Owner) (key, bool) {
	at, ok := strings.CutPrefix(o.By, Principal+":")
	namespace, name, ok2 := strings.Cut(at, "/")
	return key{kind, namespace, name}, ok && ok2
}

func ownerOf(k key, o *unstructured.Unstructured) configstore.Owner {
	owner := configstore.Owner{By: Principal + ":" + k.namespace + "/" + k.name}
	if o != nil {
		owner.ID = string(o.GetUID())
	}
	return owner
}

// step makes what objects declare.
func (r *reconciler) step(ctx context.Context, keys []key) error {
	began := time.Now()
	owners, _, err := r.options.Store.OwnersOf(ctx)
	if err != nil {
		return err
	}
	has := map[key][]configstore.Ref{}
	for ref, o := range owners {
		if k, ok := keyOf(ref.Kind, o); ok {
			has[k] = append(has[k], ref)
		}
	}
	outcomes, extra := r.prepare(ctx, keys, has)
	var declared []owned.Declared
	for _, o := range outcomes {
		if o.declared != nil {
			declared = append(declared, *o.declared)
		}
	}
	results, wrote, err := settle(ctx, r.options.Changes.Declare, append(declared, extra...), r.held)
	if err != nil {
		return err
	}
	now := map[key]bool{}
	for i := range outcomes {
		o := &outcomes[i]
		now[o.key] = true
		if o.declared != nil {
			o.result = results[o.declared.Ref()]
		}
		r.note(o)
	}
	if wrote { // others may be possible now
		for k := range r.refused {
			if !now[k] {
				r.queue.add(k)
			}
		}
	}
	r.status.finish(ctx, outcomes)
	r.then()
	r.options.Log.Debug("objects of Kubernetes are stored", zap.Int("objects", len(outcomes)),
		zap.Duration("took", time.Since(began)))
	return nil
}

// note remembers what has to be looked at again.
func (r *reconciler) note(o *outcome) {
	delete(r.refused, o.key)
	if o.err == nil {
		return
	}
	r.refused[o.key] = true
	if o.object == nil {
		r.options.Log.Warn("an object is deleted in Kubernetes and stays in the configuration", zap.String("kind", o.kind),
			zap.String("namespace", o.namespace), zap.String("name", o.name), zap.Error(o.err))
	}
}

// prepare returns what is to be written for objects, and what they have declared under other names.
func (r *reconciler) prepare(ctx context.Context, keys []key, has map[key][]configstore.Ref) (all []outcome,
	extra []owned.Declared) {
	for _, k := range keys {
		switch {
		case k.kind == namespaces && (k.name == "" || k.name == r.options.Platform): // which changes nothing
		case k.kind == namespaces:
			r.queue.add(r.watches.all(k.name)...)
		case k.kind == grants:
			r.queue.add(r.needs.users(key{kind: grants, namespace: k.namespace})...)
		case !isOurs(k.kind):
			r.queue.add(r.needs.users(k)...)
		default:
			o := outcome{key: k, object: r.watches.get(k), owned: len(has[k]) > 0}
			r.renamed(&o)
			all = append(all, o)
		}
	}
	work := errgroup.Group{}
	work.SetLimit(workers)
	for i := range all {
		if all[i].object != nil {
			work.Go(func() error { r.declare(ctx, &all[i]); return nil })
		}
	}
	_ = work.Wait() // none returns an error
	return r.withGone(all, has)
}

// renamed queues what refers to an object, if that has another name now, or there was none.
func (r *reconciler) renamed(o *outcome) {
	t, no := r.watches.tenancyOf(o.namespace)
	if no != nil {
		return
	}
	kind := kindNamed(o.kind)
	absent := t.named(o.namespace, o.name) // which others take for its name
	if generated(kind) {
		absent = ""
	}
	name := absent
	if o.object != nil {
		name = t.nameOf(kind, o.object)
	}
	if was, ok := r.names[o.key]; ok && was == name || !ok && name == absent {
		return
	}
	r.queue.add(r.needs.users(o.key)...)
	r.names[o.key] = name
	if o.object == nil {
		delete(r.names, o.key)
	}
}

// withGone adds to outcomes the end of what objects have declared and declare no more.
func (r *reconciler) withGone(all []outcome, has map[key][]configstore.Ref) (kept []outcome, extra []owned.Declared) {
	for _, o := range all {
		for _, ref := range has[o.key] {
			if o.declared != nil && ref == o.declared.Ref() || o.object != nil && o.declared == nil && !o.ends() {
				continue
			}
			gone := owned.Declared{Kind: kindNamed(ref.Kind), Name: ref.Name, Owner: ownerOf(o.key, nil)}
			if o.object == nil && o.declared == nil {
				o.declared = &gone
			} else {
				extra = append(extra, gone)
			}
		}
		o.owned = o.owned && !o.ends()
		if o.object == nil {
			r.needs.set(o.key, nil)
			r.status.forget(o.key)
			delete(r.refused, o.key)
		}
		if o.object != nil || o.declared != nil {
			kept = append(kept, o)
		}
	}
	return kept, extra
}

// declare completes an outcome by what its object declares, or by why it declares nothing.
func (r *reconciler) declare(ctx context.Context, o *outcome) {
	kind := kindNamed(o.kind)
	t, no := r.watches.tenancyOf(o.namespace)
	if no != nil {
		o.err = no
		return
	}
	object, to, err := r.watches.translate(o.key, kind, t, o.object)
	d := &owned.Declared{Kind: kind, Name: t.nameOf(kind, o.object), Object: object, Owner: ownerOf(o.key, o.object),
		Take: o.object.GetAnnotations()[crd.TakeOver] == "true", Grace: graceOf(o.object)}
	if err == nil && generated(kind) {
		o.secret = secretName(o.object)
		to = append(to, key{secrets, o.namespace, o.secret}, key{kind: secrets, namespace: o.namespace})
		d.Secret, err = r.watches.secretOf(ctx, o.object, d.Name)
	}
	if o.owned && !t.platform && (err != nil || r.refused[o.key]) {
		by, lost := r.kept(ctx, o.key, kind, d.Name)
		if to = append(to, by...); lost != nil {
			err = lost
		}
	}
	r.needs.set(o.key, to)
	if err != nil {
		o.err = err
		return
	}
	o.declared = d
}
