package kubernetes

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/kubernetes/gatewayapi"
	"github.com/modelgate/modelgate/controlplane/owned"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/timing"
)

// definition is the name of a definition of the Gateway API. All of them have the same version.
const definition = "gatewayclasses." + gatewayapi.Group

// A gatewayAPI makes configuration of objects of the Gateway API: always of all of them, because each says what others
// may.
type gatewayAPI struct {
	options Options
	watches *watches
	held    clientv3.Cmp // that this control plane leads
	changed chan struct{}
}

// look has everything looked at again.
func (g *gatewayAPI) look() {
	select {
	case g.changed <- struct{}{}:
	default:
	}
}

// run works until ctx ends.
func (g *gatewayAPI) run(ctx context.Context) {
	g.read()
	tick := time.NewTicker(again)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.changed:
		case <-tick.C:
		}
		if timing.Sleep(ctx, gather) != nil {
			return
		}
		if !g.read() { // what comes has everything looked at
			continue
		}
		if g.options.Ready() != nil {
			_ = timing.Sleep(ctx, time.Second) // its end ends the loop
			g.look()
			continue
		}
		if err := g.step(ctx); err != nil && ctx.Err() == nil {
			g.options.Log.Warn("objects of the Gateway API are looked at again", zap.Error(err))
			_ = timing.Sleep(ctx, time.Second)
			g.look()
		}
	}
}

// read reports whether all that objects depend on is read. Otherwise a right would seem lost that is only not known.
func (g *gatewayAPI) read() bool {
	within := g.options.Namespaces
	places := []place{{kind: gatewayClasses}, {kind: definitions, name: definition}}
	if len(within) == 0 {
		within = []string{metav1.NamespaceAll}
		places = append(places, place{kind: namespaces})
	}
	for _, ns := range within {
		for _, kind := range []string{gateways, httpRoutes, grants, "Provider", "Model"} {
			places = append(places, place{kind: kind, namespace: ns})
		}
		if ns != metav1.NamespaceAll {
			places = append(places, place{kind: namespaces, name: ns})
		}
	}
	if g.options.GatewayService != "" {
		places = append(places, g.service())
	}
	all := true
	for _, p := range places {
		all = g.watches.of(p).HasSynced() && all
	}
	return all
}

func (g *gatewayAPI) service() place {
	return place{kind: services, namespace: g.options.Platform, name: g.options.GatewayService}
}

// step stores what objects declare, and says what became of them.
func (g *gatewayAPI) step(ctx context.Context) error {
	owners, _, err := g.options.Store.OwnersOf(ctx)
	if err != nil {
		return err
	}
	world, err := g.world(ctx, owners)
	if err != nil {
		return err
	}
	plan := gatewayapi.Translate(world)
	all := plan.Declared()
	declared := map[configstore.Ref]bool{}
	for _, d := range all {
		declared[d.Ref()] = true
	}
	for ref, o := range owners {
		if gatewayapi.Owns(o) && !declared[ref] && !plan.Keeps(ref, o) {
			all = append(all, owned.Declared{Kind: kindNamed(ref.Kind), Name: ref.Name, Owner: o})
		}
	}
	results, _, err := settle(ctx, g.options.Changes.Declare, all, g.held)
	if err != nil {
		return err
	}
	newest := int64(0)
	for _, r := range results {
		newest = max(newest, r.revision)
	}
	missing := g.missing(ctx, newest)
	writing, within := errgroup.WithContext(ctx)
	writing.SetLimit(workers)
	for _, s := range plan.Statuses(func(ref configstore.Ref) gatewayapi.Verdict {
		r := results[ref]
		return gatewayapi.Verdict{Err: r.err, Held: r.held, Missing: missing,
			Refused: g.options.ObjectError(ref.Kind, ref.Name)}
	}, time.Now()) {
		writing.Go(func() error { return g.say(within, s) })
	}
	return writing.Wait()
}

// missing returns who of the data plane has not taken a revision after some time. Then it is asked again.
func (g *gatewayAPI) missing(ctx context.Context, revision int64) []string {
	if revision == 0 {
		return nil
	}
	waiting, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	missing := g.options.Await(waiting, revision)
	if len(missing) > 0 {
		time.AfterFunc(patience, g.look)
	}
	return missing
}

// world returns what there is.
func (g *gatewayAPI) world(ctx context.Context, owners map[configstore.Ref]configstore.Owner) (*gatewayapi.World,
	error) {
	w := g.watches
	world := &gatewayapi.World{Controller: g.options.GatewayController, Platform: g.options.Platform,
		Classes: g.list(gatewayClasses), Gateways: g.list(gateways), Routes: g.list(httpRoutes),
		Policies: g.list(tlsPolicies), ServiceName: g.options.GatewayService, Labels: g.labels, Tenancy: g.tenancy,
		Named: g.named,
		Secret: func(namespace, name string) (*unstructured.Unstructured, error) {
			k := key{secrets, namespace, name}
			if why := w.troubleOf(w.placeOf(k)); why != "" {
				return nil, unread(reasonForbidden, "Secret %s/%s cannot be read: %s", namespace, name, why)
			}
			return w.get(k), nil
		},
		May: func(from, to gatewayapi.Ref) error {
			return w.refers(key{resourceNamed(from.Kind), from.Namespace, from.Name}, resourceNamed(to.Kind), to.Namespace,
				to.Name)
		},
	}
	for _, o := range w.listed(place{kind: definitions, name: definition}) {
		world.Bundle = o.GetAnnotations()[gatewayapi.Group+"/bundle-version"]
	}
	if g.options.GatewayService != "" {
		for _, o := range w.listed(g.service()) {
			world.Service = o
		}
	}
	stored := &configstore.Snapshot{}
	if len(world.Routes) > 0 {
		var err error
		if stored, err = g.options.Store.Snapshot(ctx, configv1.KeyKind()); err != nil {
			return nil, err
		}
	}
	world.Stored = func(kind, name string) configv1.Object {
		e := stored.Find(kindNamed(kind), name)
		if e == nil || e.Object == nil {
			return nil
		}
		if _, ok := e.Object.(*configv1.Model); ok && gatewayapi.Owns(owners[configstore.Ref{Kind: kind, Name: name}]) {
			return nil // otherwise, Models could be made of each other in a ring
		}
		return e.Object
	}
	return world, nil
}

// list returns all objects of a kind that are watched.
func (g *gatewayAPI) list(kind string) (all []*unstructured.Unstructured) {
	if kind == gatewayClasses || len(g.options.Namespaces) == 0 {
		return g.watches.listed(place{kind: kind})
	}
	for _, ns := range g.options.Namespaces {
		all = slices.Concat(all, g.watches.listed(place{kind: kind, namespace: ns}))
	}
	return all
}

func (g *gatewayAPI) labels(namespace string) map[string]string {
	if n := g.watches.get(key{kind: namespaces, name: namespace}); n != nil {
		return n.GetLabels()
	}
	return nil
}

func (g *gatewayAPI) tenancy(namespace string) (gatewayapi.Tenancy, error) {
	t, no := g.watches.tenancyOf(namespace)
	if no != nil {
		return gatewayapi.Tenancy{}, no
	}
	return gatewayapi.Tenancy{Platform: t.platform, Organization: t.Organization, Project: t.Project,
		Prefix: t.named(namespace, "")}, nil
}

// named returns the name in the gateway of an object of ours.
func (g *gatewayAPI) named(kind, namespace, name string) string {
	t, no := g.watches.tenancyOf(namespace)
	if no != nil {
		return ""
	}
	if o := g.watches.get(key{kind, namespace, name}); o != nil {
		return t.nameOf(kindNamed(kind), o)
	}
	return t.named(namespace, name)
}

// say writes the status of an object, unless it has changed meanwhile: then it is looked at again anyway.
func (g *gatewayAPI) say(ctx context.Context, s gatewayapi.Status) error {
	patch, err := json.Marshal(map[string]any{"status": s.Body,
		"metadata": map[string]any{"resourceVersion": s.Object.GetResourceVersion()}})
	if err != nil {
		return err
	}
	client := g.options.Client.Resource(resourceOf(resourceNamed(s.Kind))).Namespace(s.Object.GetNamespace())
	_, err = client.Patch(ctx, s.Object.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsConflict(err) {
		g.look()
		return nil
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
