package snapshot

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/modelgate/modelgate/controlplane/xds"
	"github.com/modelgate/modelgate/envoy"
)

// randomUpdate has some of five providers, each in one of three forms, and errors of some that are not there.
func randomUpdate(random *rand.Rand, revision int64, forms map[string]*xds.Built) Update {
	u := Update{Revision: revision}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		switch random.IntN(8) {
		case 0:
			u.Errors = append(u.Errors, xds.ObjectError{Object: xds.Object{Kind: xds.KindProvider, Name: name}, Err: errTest,
				Withdraws: random.IntN(2) == 0})
			continue
		case 1:
			continue
		}
		version := random.IntN(3)
		form := fmt.Sprint(name, version)
		if forms[form] == nil || random.IntN(5) == 0 { // or another pointer to the same
			forms[form] = objectsOf(append(providerOf(name, version), jobsProviderOf(name, version)...))[0]
		}
		u.Objects = append(u.Objects, forms[form])
	}
	return u
}

// fromNothing returns what a role is to be served, by kind and name: what is effective of objects, and what lingers.
func fromNothing(s *state, role string) map[id]item {
	all := map[id]item{}
	for o, g := range s.desired {
		if g = s.effective(o, g); g != nil {
			for _, i := range g.items {
				if i.role == role {
					all[i.id] = i
				}
			}
		}
	}
	for key, l := range s.lingering {
		if key.role == role {
			all[key] = l.item
		}
	}
	return all
}

func TestWhatIsServedIsWhatWouldBeServedFromNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	s, forms, now := newState(2*time.Second), map[string]*xds.Built{}, time.Unix(0, 0)
	for _, role := range roles() {
		s.connect(role)
	}
	lingered, refused := 0, 0
	for revision := range int64(3000) {
		now = now.Add(time.Duration(random.IntN(1500)) * time.Millisecond)
		require.NoError(t, s.apply(randomUpdate(random, revision, forms)))
		for _, role := range roles() {
			before := s.given[role]
			frozen := copied(before)
			given := s.serve(role, now)
			want := fromNothing(s, role)
			got := map[id]item{}
			for k, of := range s.served {
				for _, i := range of {
					if k.role == role {
						got[i.id] = i
					}
				}
			}
			require.Equal(t, want, got)
			requireGiven(t, want, given, s.epochs)
			require.Equal(t, frozen, copied(before), "what a client reads does not change")
			require.Same(t, given, s.serve(role, now), "nothing has changed")
			k, versions := oneOf(random, s, role)
			if random.IntN(3) == 0 {
				message := "no good"
				if random.IntN(2) == 0 {
					message = fmt.Sprintf("%s: no good", firstOf(versions))
				}
				s.refuse(k, versions, message)
			} else {
				s.acknowledge(k, versions)
			}
		}
		lingered, refused = lingered+len(s.lingering), refused+len(s.refused)
	}
	require.NotZero(t, lingered)
	require.NotZero(t, refused)
}

// requireGiven compares what clients are given with items.
func requireGiven(t *testing.T, want map[id]item, given *resources, epochs map[kind]int) {
	t.Helper()
	count := 0
	for typ, messages := range given.byType {
		require.Len(t, given.versions[typ], len(messages))
		count += len(messages)
	}
	require.Len(t, want, count)
	for key, i := range want {
		require.True(t, proto.Equal(i.message, given.byType[key.typ][key.name]), key)
		version := i.hash
		if epochs[key.kind] > 0 {
			version = fmt.Sprintf("%s+%d", i.hash, epochs[key.kind])
		}
		require.Equal(t, version, given.versions[key.typ][key.name])
	}
}

func copied(r *resources) map[string]map[string]string {
	if r == nil {
		return nil
	}
	all := map[string]map[string]string{}
	for typ, versions := range r.versions {
		all[typ] = maps.Clone(versions)
	}
	return all
}

// oneOf returns a response of a role: what is served of one kind.
func oneOf(random *rand.Rand, s *state, role string) (kind, map[string]string) {
	k := map[string]kind{envoy.RoleEnvoy: {role, clusters}, envoy.RoleExtProc: {role, providers},
		envoy.RoleJobs: {role, jobsProviders}}[role]
	versions := map[string]string{}
	for name, i := range s.served[k] {
		if random.IntN(2) == 0 {
			versions[name] = i.hash
		}
	}
	return k, versions
}

func firstOf(m map[string]string) string {
	first := ""
	for name := range m {
		if first == "" || name < first {
			first = name
		}
	}
	return first
}
