package kubernetes

import (
	"context"
	"maps"
	"slices"
	"sync"

	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/modelgate/modelgate/api/config/crd"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/kubernetes/gatewayapi"
)

// Resources besides ours.
const (
	secrets    = "secrets"
	configMaps = "configmaps"
	namespaces = "namespaces"
	services   = "services"
	// Those of the Gateway API. By a grant, a namespace lets others refer to it.
	grants         = "referencegrants"
	gatewayClasses = "gatewayclasses"
	gateways       = "gateways"
	httpRoutes     = "httproutes"
	tlsPolicies    = "backendtlspolicies"
	definitions    = "customresourcedefinitions"
)

// resourceOf returns the resource of one of our kinds, or of another by its plural.
func resourceOf(kind string) schema.GroupVersionResource {
	if k, ok := configv1.FindKind(kind); ok && k.Name == kind {
		return schema.GroupVersionResource{Group: crd.Group, Version: crd.Version, Resource: k.Plural}
	}
	r := schema.GroupVersionResource{Version: "v1", Resource: kind}
	switch kind {
	case grants:
		r.Group, r.Version = gatewayapi.Group, "v1beta1"
	case gatewayClasses, gateways, httpRoutes, tlsPolicies:
		r.Group = gatewayapi.Group
	case definitions:
		r.Group = "apiextensions.k8s.io"
	}
	return r
}

// kindOf returns the kind of a resource that is not ours, or one of ours.
func kindOf(kind string) string {
	switch kind {
	case secrets:
		return "Secret"
	case configMaps:
		return "ConfigMap"
	case gatewayClasses:
		return "GatewayClass"
	case gateways:
		return "Gateway"
	case httpRoutes:
		return "HTTPRoute"
	case tlsPolicies:
		return "BackendTLSPolicy"
	}
	return kind
}

// resourceNamed is the inverse of kindOf, for kinds of the Gateway API and what they refer to.
func resourceNamed(kind string) string {
	for _, resource := range []string{secrets, gatewayClasses, gateways, httpRoutes, tlsPolicies} {
		if kindOf(resource) == kind {
			return resource
		}
	}
	return kind
}

func kindNamed(name string) configv1.Kind {
	k, _ := configv1.FindKind(name)
	return k
}

// generated reports whether the gateway gives objects of a kind their names, and their secrets.
func generated(k configv1.Kind) bool { return crd.Generated(k.New().ProtoReflect().Descriptor()) }

// A place is what one watch is of: a kind within a namespace, or in all. One object is named, or all are meant.
type place struct{ kind, namespace, name string }

// watches are the watches of a leader. They are safe for concurrent use.
type watches struct {
	options Options
	ctx     context.Context
	queue   *queue

	mu       sync.Mutex // guards what follows
	informer map[place]cache.SharedIndexInformer
	problem  map[place]string
	running  sync.WaitGroup
}

func newWatches(ctx context.Context, o Options, q *queue) *watches {
	return &watches{options: o, ctx: ctx, queue: q, informer: map[place]cache.SharedIndexInformer{},
		problem: map[place]string{}}
}

// run watches our kinds, and where their namespaces belong, until the leader's context ends.
func (w *watches) run() {
	within := w.options.Namespaces
	if len(within) == 0 {
		within = []string{metav1.NamespaceAll}
		w.of(place{kind: namespaces})
	}
	for _, ns := range within {
		if ns != metav1.NamespaceAll && ns != w.options.Platform {
			w.of(place{kind: namespaces, name: ns})
		}
		for _, k := range crd.Kinds() {
			w.of(place{kind: k.Name, namespace: ns})
		}
		w.of(place{kind: grants, namespace: ns})
	}
	<-w.ctx.Done()
	w.running.Wait()
}

// of returns the watch of a place, which it starts if there is none.
func (w *watches) of(p place) cache.SharedIndexInformer {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i := w.informer[p]; i != nil {
		return i
	}
	i := w.start(p)
	w.informer[p] = i
	if w.ctx.Err() != nil {
		return i // it is the end
	}
	w.running.Go(func() { i.RunWithContext(w.ctx) })
	if !isOurs(p.kind) {
		w.running.Go(func() {
			if cache.WaitForCacheSync(w.ctx.Done(), i.HasSynced) { // what is not there is known now, too
				w.queue.add(key(p))
			}
		})
	}
	return i
}

func (w *watches) start(p place) cache.SharedIndexInformer {
	client := w.options.Client.Resource(resourceOf(p.kind)).Namespace(p.namespace)
	only := func(o metav1.ListOptions) metav1.ListOptions {
		if p.name != "" {
			o.FieldSelector = "metadata.name=" + p.name
		}
		return o
	}
	i := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, only(o))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return client.Watch(ctx, only(o))
		},
	}, &unstructured.Unstructured{}, 0, cache.Indexers{})
	// Both return errors only for informers that run.
	_ = i.SetTransform(slim)
	_ = i.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) { w.failed(p, err) })
	_, err := i.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(o any, _ bool) { w.changed(p, nil, o) },
		UpdateFunc: func(old, o any) { w.changed(p, old, o) },
		DeleteFunc: func(o any) { w.changed(p, nil, o) },
	})
	if err != nil {
		w.options.Log.Error("objects of Kubernetes are not heard of", zap.Any("place", p), zap.Error(err))
	}
	return i
}

// slim drops what nobody reads.
func slim(o any) (any, error) {
	if u, ok := o.(*unstructured.Unstructured); ok {
		unstructured.RemoveNestedField(u.Object, "metadata", "managedFields")
		unstructured.RemoveNestedField(u.Object, "metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration")
		switch u.Object["type"] {
		case "helm.sh/release.v1", "kubernetes.io/service-account-token": // large, or nobody's business
			unstructured.RemoveNestedField(u.Object, "data")
		}
	}
	return o, nil
}

// failed notes why a watch does not work, and says it once.
func (w *watches) failed(p place, err error) {
	why := err.Error()
	switch {
	case apierrors.IsNotFound(err) && resourceOf(p.kind).Group == gatewayapi.Group:
		return // the Gateway API is not there: nobody grants anything
	case apierrors.IsNotFound(err):
		why = "the CustomResourceDefinition " + resourceOf(p.kind).Resource + "." + crd.Group + " is not installed"
	case apierrors.IsForbidden(err):
		why = "the service account lacks a right: " + why
	}
	w.mu.Lock()
	told := w.problem[p] == why
	w.problem[p] = why
	w.mu.Unlock()
	if !told {
		if !isOurs(p.kind) {
			w.queue.add(key(p)) // so that conditions say it
		}
		w.options.Log.Warn("objects of Kubernetes cannot be watched", zap.String("resource", resourceOf(p.kind).Resource),
			zap.String("namespace", p.namespace), zap.String("why", why))
	}
}

// troubleOf returns why what is at a place is not known, or "".
func (w *watches) troubleOf(p place) string {
	i := w.of(p)
	if i.HasSynced() {
		return ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if why := w.problem[p]; why != "" {
		return why
	}
	return resourceOf(p.kind).Resource + " are not read yet"
}

// changed queues an object, unless only what we say of it has changed.
func (w *watches) changed(p place, old, o any) {
	if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = gone.Obj
	}
	now, ok := o.(*unstructured.Unstructured)
	if !ok {
		return
	}
	if was, ok := old.(*unstructured.Unstructured); ok && speaks(p.kind) && was.GetUID() == now.GetUID() &&
		was.GetGeneration() == now.GetGeneration() && maps.Equal(was.GetAnnotations(), now.GetAnnotations()) {
		return
	}
	w.queue.add(key{p.kind, now.GetNamespace(), now.GetName()})
}

func isOurs(kind string) bool { return resourceOf(kind).Group == crd.Group }

// speaks reports whether objects of a kind say what became of them.
func speaks(kind string) bool { return isOurs(kind) || resourceOf(kind).Group == gatewayapi.Group }

// placeOf returns where an object is watched.
func (w *watches) placeOf(k key) place {
	p := place{kind: k.kind, namespace: k.namespace}
	switch {
	case k.kind == namespaces && len(w.options.Namespaces) > 0:
		p.name = k.name
	case (isOurs(k.kind) || k.kind == grants) && len(w.options.Namespaces) == 0:
		p.namespace = metav1.NamespaceAll
	}
	return p
}

// watched reports whether objects of a namespace are.
func (w *watches) watched(namespace string) bool {
	return len(w.options.Namespaces) == 0 || slices.Contains(w.options.Namespaces, namespace)
}

// get returns an object as it was last heard of, or nil. Nobody changes it.
func (w *watches) get(k key) *unstructured.Unstructured {
	at := k.name
	if k.namespace != "" {
		at = k.namespace + "/" + k.name
	}
	o, ok, err := w.of(w.placeOf(k)).GetStore().GetByKey(at)
	if err != nil || !ok {
		return nil
	}
	u, _ := o.(*unstructured.Unstructured)
	return u
}

// listed returns what there is at a place.
func (w *watches) listed(p place) (all []*unstructured.Unstructured) {
	for _, o := range w.of(p).GetStore().List() {
		if u, ok := o.(*unstructured.Unstructured); ok {
			all = append(all, u)
		}
	}
	return all
}

// all returns the keys of all our objects that are there, of one namespace, or of all for "".
func (w *watches) all(namespace string) (keys []key) {
	w.mu.Lock()
	informers := maps.Clone(w.informer)
	w.mu.Unlock()
	for p, i := range informers {
		if !isOurs(p.kind) {
			continue
		}
		for _, o := range i.GetStore().List() {
			if u, ok := o.(*unstructured.Unstructured); ok && (namespace == "" || u.GetNamespace() == namespace) {
				keys = append(keys, key{p.kind, u.GetNamespace(), u.GetName()})
			}
		}
	}
	return keys
}
