package snapshot

import (
	"slices"
	"time"

	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"

	"github.com/modelgate/modelgate/controlplane/xds"
	"github.com/modelgate/modelgate/envoy"
)

// A state has the desired configuration, the answers of clients, and the served resources, which follow from both. It
// does no I/O and has no clock. The Publisher guards it.
type state struct {
	grace    time.Duration
	revision int64

	objects []*xds.Built           // of the last update
	built   map[xds.Object]bool    // the same
	desired map[xds.Object]*group  // the wanted state of objects, and of those that could not be built
	errs    map[xds.Object]string  // of objects, before publishing
	good    map[xds.Object]*group  // what clients last acknowledged completely
	refused map[xds.Object]refusal // refused by a client
	trials  []trial                // objects to try one at a time; the first is on trial

	moved  map[string]map[xds.Object]bool   // by role, objects whose wanted form is not served yet
	shown  map[string]map[xds.Object]*group // by role, what is served of each object
	acked  map[id]string                    // hash that a client has last acknowledged
	served map[kind]map[string]item         // what clients are sent now
	given  map[string]*resources            // the same, by role
	epochs map[kind]int                     // raised to send everything of a kind again
	again  map[kind]bool                    // kinds whose resources are all sent again

	lingering map[id]leaver
	shared    bool           // Envoys of others are given the clusters, too
	connected map[string]int // clients by role
}

// A refusal is the reason why a client does not accept a version of an object.
type refusal struct {
	hash    string // of the group
	message string
}

// A trial is an object in a refused response whose error did not name the cause.
type trial struct {
	object xds.Object
	kind   kind
}

// A leaver is a cluster that no plan uses any more, but that a running retry may need.
type leaver struct {
	item
	until time.Time
}

func newState(grace time.Duration) *state {
	s := &state{
		grace:     grace,
		built:     map[xds.Object]bool{},
		moved:     map[string]map[xds.Object]bool{},
		desired:   map[xds.Object]*group{},
		errs:      map[xds.Object]string{},
		good:      map[xds.Object]*group{},
		refused:   map[xds.Object]refusal{},
		shown:     map[string]map[xds.Object]*group{},
		acked:     map[id]string{},
		served:    map[kind]map[string]item{},
		given:     map[string]*resources{},
		epochs:    map[kind]int{},
		again:     map[kind]bool{},
		lingering: map[id]leaver{},
		connected: map[string]int{},
	}
	for _, role := range roles() {
		s.moved[role], s.shown[role] = map[xds.Object]bool{}, map[xds.Object]*group{}
	}
	return s
}

// apply makes u the desired configuration. An object that could not be built keeps its previous version, unless it is
// withdrawn.
func (s *state) apply(u Update) error {
	changed := changes(s.objects, u.Objects)
	groups := make(map[xds.Object]*group, len(changed))
	for o, built := range changed {
		if built == nil {
			continue
		}
		g, err := newGroup(built)
		if err != nil {
			return err
		}
		groups[o] = g
	}
	errs, stays := make(map[xds.Object]string, len(u.Errors)), make(map[xds.Object]bool, len(u.Errors))
	for _, e := range u.Errors {
		errs[e.Object], stays[e.Object] = e.Err.Error(), !e.Withdraws
	}
	for o, built := range changed {
		if built == nil {
			delete(s.built, o)
			groups[o] = nil
		} else {
			s.built[o] = true
		}
	}
	for o := range s.errs { // which may be served although it was not built
		if !s.built[o] {
			groups[o] = nil
		}
	}
	for o := range errs {
		if !s.built[o] {
			groups[o] = nil
		}
	}
	for o, g := range groups {
		if g != nil || !stays[o] {
			s.want(o, g)
		}
	}
	s.revision, s.objects, s.errs = u.Revision, u.Objects, errs
	s.trials = slices.DeleteFunc(s.trials, func(t trial) bool { return s.desired[t.object] == nil })
	return nil
}

// want makes g what is wanted of an object; nil is nothing.
func (s *state) want(o xds.Object, g *group) {
	before := s.desired[o]
	switch {
	case g == nil:
		delete(s.desired, o)
		delete(s.good, o)
		delete(s.refused, o)
	case before != nil && before.hash == g.hash:
		return
	default:
		s.desired[o] = g
		if s.refused[o].hash != g.hash { // an object that has changed since its refusal is tried again
			delete(s.refused, o)
		}
	}
	for _, role := range roles() {
		s.moved[role][o] = true
	}
}

// effective returns the served group of an object whose wanted group is g: g, or the last good one, or nil.
func (s *state) effective(o xds.Object, g *group) *group {
	if g == nil {
		return nil
	}
	if r, ok := s.refused[o]; ok && r.hash == g.hash {
		return s.good[o]
	}
	for i, t := range s.trials {
		if i > 0 && t.object == o {
			return s.good[o]
		}
	}
	return g
}

// serve decides anew what the clients of a role are given, and returns it: the same pointer if nothing has changed.
func (s *state) serve(role string, now time.Time) *resources {
	gone, come := s.turnover(role)
	touched := map[id]bool{}
	for _, i := range gone {
		touched[i.id] = true
		if role == envoy.RoleEnvoy && i.typ == resource.ClusterType && (s.shared || s.acked[i.id] == i.hash) {
			s.lingering[i.id] = leaver{i, now.Add(s.grace)} // only what Envoy has taken
			continue
		}
		delete(s.served[i.kind], i.name)
	}
	for _, i := range come {
		touched[i.id] = true
		delete(s.lingering, i.id)
		if s.served[i.kind] == nil {
			s.served[i.kind] = map[string]item{}
		}
		s.served[i.kind][i.name] = i
	}
	for key, l := range s.lingering {
		if key.role == role && !now.Before(l.until) {
			touched[key] = true
			delete(s.lingering, key)
			delete(s.served[key.kind], key.name)
		}
	}
	for key := range touched {
		if _, ok := s.served[key.kind][key.name]; !ok {
			delete(s.acked, key)
		}
	}
	for k := range s.again {
		if k.role == role {
			s.epochs[k]++
			delete(s.again, k)
			for _, i := range s.served[k] {
				touched[i.id] = true
			}
		}
	}
	s.given[role] = s.given[role].with(s.revision, touched, s)
	return s.given[role]
}

// turnover returns the items of a role that are no longer served, or served in another form, and the items that
// replace them.
func (s *state) turnover(role string) (gone, come []item) {
	shown, moved := s.shown[role], s.moved[role]
	of := func(g *group) []item {
		if g == nil {
			return nil
		}
		return slices.DeleteFunc(slices.Clone(g.items), func(i item) bool { return i.role != role })
	}
	for o := range s.refused {
		moved[o] = true
	}
	for _, t := range s.trials {
		moved[t.object] = true
	}
	for o := range moved {
		g, last := s.effective(o, s.desired[o]), shown[o]
		if g != last {
			gone, come = append(gone, of(last)...), append(come, of(g)...)
			shown[o] = g
		}
		if g == nil {
			delete(shown, o)
		}
		if g == s.desired[o] {
			delete(moved, o)
		}
	}
	return gone, come
}

// nextDeparture returns when the first lingering cluster is removed; ok is false if there is none.
func (s *state) nextDeparture() (at time.Time, ok bool) {
	for _, l := range s.lingering {
		if !ok || l.until.Before(at) {
			at, ok = l.until, true
		}
	}
	return at, ok
}

// acknowledge records that a client has taken resources, by name with their hashes. It reports whether that changes
// what to serve.
func (s *state) acknowledge(k kind, versions map[string]string) bool {
	for name, hash := range versions {
		i, ok := s.served[k][name]
		if !ok || i.hash != hash {
			continue
		}
		s.acked[i.id] = hash
		if g := s.desired[i.owner]; g != nil && s.takenWhole(g) && s.refused[i.owner].hash != g.hash {
			s.good[i.owner] = g
		}
	}
	return s.endTrial()
}

// takenWhole reports whether clients have acknowledged every resource of a group, for all roles with clients. The job
// service does not count.
func (s *state) takenWhole(g *group) bool {
	return !slices.ContainsFunc(g.items, func(i item) bool {
		return i.role != envoy.RoleJobs && s.connected[i.role] > 0 && s.acked[i.id] != i.hash
	})
}

// endTrial ends the current trial if it has succeeded, and reports whether it has.
func (s *state) endTrial() bool {
	if len(s.trials) == 0 {
		return false
	}
	t := s.trials[0]
	for _, i := range s.desired[t.object].items {
		if i.kind == t.kind && s.acked[i.id] != i.hash {
			return false
		}
	}
	s.trials = s.trials[1:]
	return true
}

// connect counts a connected client of a role.
func (s *state) connect(role string) { s.connected[role]++ }

// disconnect counts a disconnected client. With the last one, its role's trials end.
func (s *state) disconnect(role string) {
	s.connected[role]--
	if s.connected[role] > 0 {
		return
	}
	s.trials = slices.DeleteFunc(s.trials, func(t trial) bool { return t.kind.role == role })
}
