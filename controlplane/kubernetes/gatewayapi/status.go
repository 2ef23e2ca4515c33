package gatewayapi

import (
	"errors"
	"maps"
	"reflect"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/modelgate/modelgate/api/config/crd"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/configstore"
)

// maxMessage is the most that the API server takes of a condition's message.
const maxMessage = 32768

// A Verdict is what became of an object that was declared.
type Verdict struct {
	Err     error    // why it is not stored
	Held    string   // why it waits for approval
	Missing []string // who of the data plane has not taken it
	Refused string   // why it has no effect
}

// A Status is what an object is to say of itself, if it does not say so already.
type Status struct {
	Kind   string
	Object *unstructured.Unstructured
	Body   map[string]any
}

// A condition is one of an object.
type condition struct {
	kind            string
	good            bool
	reason, message string
}

// is returns a condition: good, or with a problem.
func is(kind, good string, no *problem) condition {
	if no != nil {
		return condition{kind, false, no.reason, no.message}
	}
	return condition{kind, true, good, ""}
}

// A judge says what objects are to say.
type judge struct {
	plan     *Plan
	verdicts func(configstore.Ref) Verdict
	now      string
}

// Statuses returns what objects are to say of themselves, and do not say yet.
func (p *Plan) Statuses(verdicts func(configstore.Ref) Verdict, now time.Time) (all []Status) {
	j := &judge{plan: p, verdicts: verdicts, now: now.UTC().Format(time.RFC3339)}
	for _, c := range p.classes {
		all = append(all, j.status("GatewayClass", c.object, j.class(c)))
	}
	for _, g := range p.gateways {
		all = append(all, j.status(kindGateway, g.object, j.gateway(g)))
	}
	routed := map[string]bool{}
	for _, r := range p.routes {
		routed[r.owner.By] = true
		all = append(all, j.status(kindRoute, r.object, map[string]any{"parents": j.parents(r)}))
	}
	for _, o := range p.world.Routes { // which have no parent of ours any more
		if !routed[ownerOf(kindRoute, o).By] {
			all = append(all, j.status(kindRoute, o, map[string]any{"parents": j.others(o, "parents")}))
		}
	}
	for _, o := range p.world.Policies {
		all = append(all, j.status(kindPolicy, o, map[string]any{"ancestors": j.policy(o)}))
	}
	return unsaid(all)
}

func unsaid(all []Status) (rest []Status) {
	for _, s := range all {
		is, _, _ := unstructured.NestedMap(s.Object.Object, "status")
		for field, value := range s.Body {
			if !reflect.DeepEqual(is[field], value) && (!empty(is[field]) || !empty(value)) {
				rest = append(rest, s)
				break
			}
		}
	}
	return rest
}

func (j *judge) status(kind string, o *unstructured.Unstructured, body map[string]any) Status {
	return Status{Kind: kind, Object: o, Body: body}
}

func (j *judge) class(c *class) map[string]any {
	all := []condition{is("Accepted", "Accepted", c.problem)}
	if bundle := j.plan.world.Bundle; bundle != "" {
		version := condition{"SupportedVersion", true, "SupportedVersion", "The Gateway API is " + bundle + "."}
		if !supported(bundle) {
			version = condition{"SupportedVersion", false, "UnsupportedVersion",
				"The Gateway API is " + bundle + ". Fields of v1.6 and before are known; others are refused by name."}
		}
		all = append(all, version)
	}
	return map[string]any{"conditions": j.conditions(c.object, c.object.Object["status"], all)}
}

func (j *judge) gateway(g *gateway) map[string]any {
	addresses := j.plan.world.addresses()
	var listeners []any
	good, programmed := 0, 0
	for _, x := range g.listeners {
		all := j.listener(x)
		if all[0].good && !x.conflicted {
			good++
		}
		if all[3].good {
			programmed++
		}
		kinds := []any{}
		if x.routes {
			kinds = append(kinds, map[string]any{"group": Group, "kind": kindRoute})
		}
		listeners = append(listeners, map[string]any{"name": x.name, "attachedRoutes": x.attached, "supportedKinds": kinds,
			"conditions": j.conditions(g.object, entry(g.object, "listeners", "name", x.name), all)})
	}
	accepted := is("Accepted", "Accepted", g.problem)
	switch {
	case g.problem != nil:
	case good == 0:
		accepted = condition{"Accepted", false, "ListenersNotValid", "No listener is accepted."}
	case good < len(g.listeners):
		accepted.reason, accepted.message = "ListenersNotValid", "Some listeners are not accepted."
	}
	ready := condition{"Programmed", true, "Programmed", ""}
	switch {
	case !accepted.good:
		ready = condition{"Programmed", false, reasonInvalid, "It is not accepted."}
	case programmed == 0:
		ready = condition{"Programmed", false, reasonPending, "No listener is programmed."}
	case j.plan.world.ServiceName != "" && len(addresses) == 0:
		ready = condition{"Programmed", false, "AddressNotAssigned",
			"The Service " + j.plan.world.ServiceName + " has no address yet."}
	}
	return map[string]any{"conditions": j.conditions(g.object, g.object.Object["status"], []condition{accepted, ready}),
		"listeners": listeners, "addresses": addresses}
}

// listener returns the conditions of a listener; the fourth is whether it is programmed.
func (j *judge) listener(x *listener) []condition {
	accepted, refs, ready := x.accepted, x.refs, (*problem)(nil)
	if x.declared {
		for _, ref := range []configstore.Ref{{Kind: "Certificate", Name: x.ref.Name}, x.ref} {
			no, unresolved, late := judged(j.verdicts(ref), reasonPort)
			accepted, refs, ready = first(accepted, no), first(refs, unresolved), first(ready, late)
		}
	}
	if ready == nil && (accepted != nil || refs != nil || x.conflicted || x.gateway.problem != nil) {
		ready = trouble(reasonInvalid, "It is not in force, or as it was before.")
	}
	conflicted := condition{"Conflicted", false, "NoConflicts", ""}
	if x.conflicted {
		conflicted = condition{"Conflicted", true, "ProtocolConflict", "Another listener has the port, with another protocol."}
	}
	return []condition{is("Accepted", "Accepted", first(accepted, x.gateway.problem)), conflicted,
		is("ResolvedRefs", "ResolvedRefs", first(refs, x.kinds)), is("Programmed", "Programmed", ready)}
}

// parents returns the parents of a route, with those of other controllers as they are.
func (j *judge) parents(r *route) []any {
	accepted, refs := r.accepted, r.refs
	for _, d := range r.declared {
		if r.good() {
			no, unresolved, late := judged(j.verdicts(d.Ref()), reasonUnsupported)
			accepted, refs = first(accepted, no), first(refs, unresolved)
			if late != nil && late.reason != reasonPending {
				accepted = first(accepted, late)
			}
		}
	}
	all := j.others(r.object, "parents")
	for _, p := range r.parents {
		conditions := []condition{is("Accepted", "Accepted", first(p.problem, accepted)),
			is("ResolvedRefs", "ResolvedRefs", refs)}
		if refs != nil && conditions[0].good {
			conditions[0].message = "It is not in force, or as it was before: " + refs.message
		}
		all = append(all, map[string]any{"parentRef": p.ref, "controllerName": j.plan.world.Controller,
			"conditions": j.conditions(r.object, j.own(r.object, "parents", "parentRef", p.ref), conditions)})
	}
	return all
}

func first(a, b *problem) *problem {
	if a != nil {
		return a
	}
	return b
}

// judged returns why a declared object is not accepted, what it refers to in vain, and why the data plane does not
// have it.
func judged(v Verdict, taken string) (accepted, refs, ready *problem) {
	invalid, is := errors.AsType[configv1.Errors](v.Err)
	e, ours := errors.AsType[*openai.Error](v.Err)
	switch {
	case v.Held != "":
		accepted = trouble(reasonPending, "it waits for a second person's approval: %s", v.Held)
	case is:
		for _, one := range invalid {
			if one.Unresolved {
				return nil, trouble(reasonNotFound, "%s", invalid.Error()), nil
			}
		}
		accepted = trouble(reasonUnsupported, "%s", invalid.Error())
		if strings.Contains(accepted.message, "already taken") {
			accepted.reason = taken
		}
	case ours && e.Code == openai.CodeDeclaredElsewhere:
		accepted = trouble("Conflict", "%s", e.Message)
	case v.Err != nil:
		accepted = trouble(reasonInvalid, "%v", v.Err)
	case v.Refused != "":
		ready = trouble(reasonInvalid, "%s", v.Refused)
	case len(v.Missing) > 0:
		ready = trouble(reasonPending, "waiting for %v", v.Missing)
	}
	return accepted, refs, ready
}

// conditions returns those of an object or of a part of it. What was said before is in was: a condition that is as it
// was keeps its time.
func (j *judge) conditions(o *unstructured.Unstructured, was any, all []condition) (list []any) {
	before := map[string]map[string]any{}
	part, _ := was.(map[string]any)
	said, _ := part["conditions"].([]any)
	for _, c := range said {
		if m, ok := c.(map[string]any); ok {
			kind, _ := m["type"].(string)
			before[kind] = m
		}
	}
	for _, c := range all {
		status, since := "False", j.now
		if c.good {
			status = "True"
		}
		if before[c.kind]["status"] == status {
			if at, ok := before[c.kind]["lastTransitionTime"].(string); ok {
				since = at
			}
		}
		list = append(list, map[string]any{"type": c.kind, "status": status, "reason": c.reason,
			"message": c.message[:min(len(c.message), maxMessage)], "observedGeneration": o.GetGeneration(),
			"lastTransitionTime": since})
	}
	return list
}

// others returns what other controllers say of a route or a policy.
func (j *judge) others(o *unstructured.Unstructured, list string) (all []any) {
	said, _, _ := unstructured.NestedSlice(o.Object, "status", list)
	for _, p := range said {
		if m, ok := p.(map[string]any); ok && m["controllerName"] != j.plan.world.Controller {
			all = append(all, p)
		}
	}
	return all
}

// own returns what we said of a parent of a route, or of an ancestor of a policy.
func (j *judge) own(o *unstructured.Unstructured, list, member string, ref map[string]any) any {
	said, _, _ := unstructured.NestedSlice(o.Object, "status", list)
	for _, p := range said {
		if m, ok := p.(map[string]any); ok && m["controllerName"] == j.plan.world.Controller &&
			reflect.DeepEqual(m[member], ref) {
			return m
		}
	}
	return nil
}

// policy returns what is said of a BackendTLSPolicy. One for a Provider would change an object that something else
// declares.
func (j *judge) policy(o *unstructured.Unstructured) []any {
	all := j.others(o, "ancestors")
	for _, target := range specOf(o).each("targetRefs") {
		if target.text("group", "") != crd.Group || target.text("kind", "") != kindProvider {
			continue
		}
		ref := map[string]any{"group": crd.Group, "kind": kindProvider, "namespace": o.GetNamespace(),
			"name": target.text("name", "")}
		no := is("Accepted", "Accepted", trouble(reasonInvalid,
			"%sname: the Provider itself says by what its endpoint is known: spec.tls.ca and spec.tls.server_name", target.at))
		all = append(all, map[string]any{"ancestorRef": ref, "controllerName": j.plan.world.Controller,
			"conditions": j.conditions(o, j.own(o, "ancestors", "ancestorRef", ref), []condition{no})})
	}
	return all
}

// entry returns the element of a list of a status that has a name.
func entry(o *unstructured.Unstructured, list, field, name string) any {
	all, _, _ := unstructured.NestedSlice(o.Object, "status", list)
	for _, e := range all {
		if m, ok := e.(map[string]any); ok && m[field] == name {
			return maps.Clone(m)
		}
	}
	return nil
}
