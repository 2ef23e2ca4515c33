package snapshot

import (
	"cmp"
	"maps"
	"slices"

	"github.com/modelgate/modelgate/controlplane/xds"
)

// A Status is the state of a Publisher.
type Status struct {
	// Ready means that a configuration has been published.
	Ready bool
	// Revision of the configuration that was sent to every role.
	Revision int64
	// Clients are the numbers of connected clients, by role.
	Clients map[string]int
	// Errors of objects: why they could not be built, or why a client has refused them.
	Errors map[xds.Object]string
}

// Status returns the current status. The caller owns it.
func (p *Publisher) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Status{Revision: p.published, Clients: map[string]int{}, Errors: maps.Clone(p.state.errs)}
	select {
	case <-p.first:
		s.Ready = true
	default:
	}
	for _, c := range p.clients {
		if c.role != "" {
			s.Clients[c.role]++
		}
	}
	for o := range p.state.desired {
		if e := p.state.objectError(o); e != "" {
			s.Errors[o] = e
		}
	}
	return s
}

// maxRefusals bounds the reported refusals.
const maxRefusals = 100

// A Refusal is an object that a client has refused.
type Refusal struct {
	Kind  string `json:"kind"`
	Name  string `json:"name"`
	Error string `json:"error"`
}

// Refused returns the refused objects, sorted.
func (p *Publisher) Refused() []Refusal {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []Refusal
	for o := range p.state.refused {
		if e := p.state.objectError(o); e != "" && p.state.desired[o] != nil {
			all = append(all, Refusal{o.Kind, o.Name, e})
		}
	}
	slices.SortFunc(all, func(a, b Refusal) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return all[:min(len(all), maxRefusals)]
}

// ObjectError returns the error of an object, or "".
func (p *Publisher) ObjectError(kind, name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state.objectError(xds.Object{Kind: kind, Name: name})
}

// objectError returns the build error of an object if there is one, because it is about the newest version.
func (s *state) objectError(o xds.Object) string {
	if e := s.errs[o]; e != "" {
		return e
	}
	if r, ok := s.refused[o]; ok {
		return "refused by the data plane: " + r.message
	}
	for i, t := range s.trials {
		if t.object == o && i > 0 {
			return "waiting to be tried alone, after the data plane has refused it together with others"
		}
	}
	return ""
}
