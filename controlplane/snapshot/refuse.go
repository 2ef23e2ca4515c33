package snapshot

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/modelgate/modelgate/controlplane/xds"
	"github.com/modelgate/modelgate/envoy"
)

// maxMessage bounds the stored message of a client, in bytes.
const maxMessage = 1024

// refuse records that a client has refused a response, and returns the objects that caused it, sorted. If the message
// does not name them, all objects that no client has acknowledged are suspects. Several suspects are tried one at a
// time. All resources of the kind are sent again, because the client may have dropped the good ones too. It returns
// false if nothing changes: the refused content is not served any more, or all other clients have it. A refusal of the
// job service changes nothing, because requests depend only on Envoy and the ext_proc service.
//
// Every refusal with a change withdraws content or puts another object on trial. So a client that refuses everything
// gets a bounded number of responses.
func (s *state) refuse(k kind, versions map[string]string, message string) (blamed []xds.Object, changed bool) {
	var fresh, named []item
	for name, hash := range versions {
		i, ok := s.served[k][name]
		if !ok || i.hash != hash {
			continue
		}
		if s.acked[i.id] != hash {
			fresh = append(fresh, i)
		}
		if mentions(message, name) {
			named = append(named, i)
		}
	}
	suspects := named
	if len(named) == 0 {
		suspects = fresh
	}
	if len(suspects) == 0 || k.role == envoy.RoleJobs {
		return owners(suspects), false
	}
	s.again[k] = true
	for _, i := range suspects {
		if l, ok := s.lingering[i.id]; ok {
			s.lingering[i.id] = leaver{l.item, time.Time{}} // it leaves now
		}
	}
	blamed = slices.DeleteFunc(owners(suspects), func(o xds.Object) bool { return s.desired[o] == nil })
	if len(named) == 0 && len(blamed) > 1 {
		s.try(k, blamed)
		return nil, true
	}
	for _, o := range blamed {
		s.blame(o, message)
	}
	return blamed, true
}

// blame withdraws the served content of an object.
func (s *state) blame(o xds.Object, message string) {
	s.trials = slices.DeleteFunc(s.trials, func(t trial) bool { return t.object == o })
	g, good := s.effective(o, s.desired[o]), s.good[o]
	if g == nil {
		return
	}
	for _, i := range g.items {
		delete(s.acked, i.id)
	}
	if good != nil && good.hash == g.hash {
		delete(s.good, o)
	} else if good != nil {
		for _, i := range good.items {
			s.acked[i.id] = i.hash
		}
	}
	if g == s.desired[o] {
		s.refused[o] = refusal{g.hash, shorten(message)}
	}
}

// try puts objects on trial, one at a time. An object on trial keeps its position.
func (s *state) try(k kind, suspects []xds.Object) {
	for _, o := range suspects {
		if !slices.ContainsFunc(s.trials, func(t trial) bool { return t.object == o }) {
			s.trials = append(s.trials, trial{o, k})
		}
	}
}

// owners returns the objects of items, each once, sorted.
func owners(items []item) []xds.Object {
	var out []xds.Object
	for _, i := range items {
		out = append(out, i.owner)
	}
	slices.SortFunc(out, func(a, b xds.Object) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return slices.Compact(out)
}

// mentions reports whether a client's message names a resource: "aa/first" or "a/first-2" does not name "a/first".
func mentions(message, name string) bool {
	for rest := message; name != ""; {
		before, after, ok := strings.Cut(rest, name)
		if !ok {
			return false
		}
		prev, _ := utf8.DecodeLastRuneInString(before)
		next, _ := utf8.DecodeRuneInString(after)
		if (before == "" || !inName(prev)) && (after == "" || !inName(next)) {
			return true
		}
		rest = after
	}
	return false
}

// inName reports whether r can continue a resource's name. A full stop could, but more often ends a sentence.
func inName(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune("/-_", r)
}

func shorten(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage], "") + "…"
}
