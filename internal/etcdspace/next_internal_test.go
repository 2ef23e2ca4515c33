package etcdspace

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhichMemberIsDefragmentedNext(t *testing.T) {
	const mb, limit = 1 << 20, 2 << 30
	member := func(name string, size, used int64, leader bool) Member {
		return Member{Name: name, Size: size * mb, InUse: used * mb, Quota: limit, Leader: leader}
	}
	for name, c := range map[string]struct {
		members []Member
		missing int
		full    bool
		kept    int64 // the revision of the last compaction; all are tidied to 0
		want    string
	}{
		"nothing to gain": {[]Member{member("a", 100, 90, false)}, 0, false, 0, ""},
		"little to gain":  {[]Member{member("a", 60, 1, false)}, 0, false, 0, ""},
		"half of a file":  {[]Member{member("a", 200, 90, true)}, 0, false, 0, "a"},
		"the leader last": {[]Member{member("a", 900, 10, true), member("b", 200, 90, false)}, 0, false, 0,
			"b"},
		"the leader when it is left": {[]Member{member("a", 900, 10, true), member("b", 20, 10, false)}, 0, false, 0,
			"a"},
		"the one that gains most": {[]Member{member("a", 200, 90, false), member("b", 300, 90, false)}, 0, false, 0,
			"b"},
		"a tenth of a file near its quota": {[]Member{member("a", 1600, 1350, false)}, 0, false, 0, "a"},
		"a tenth of another":               {[]Member{member("a", 1400, 1150, false)}, 0, false, 0, ""},
		"none while a member is away":      {[]Member{member("a", 900, 10, false)}, 1, false, 0, ""},
		"any when etcd is full":            {[]Member{member("a", 2047, 2000, false)}, 1, true, 0, "a"},
		"after a compaction when full":     {[]Member{member("a", 2047, 2047, false)}, 0, true, 7, "a"},
		"not the one that is done": {[]Member{member("a", 2000, 1999, false), member("b", 2047, 2000, true)}, 0,
			true, 0, "b"},
	} {
		m, ok := (&Keeper{kept: c.kept, tidied: map[uint64]int64{0: 0}}).next(&State{Members: c.members, Missing: c.missing,
			Full: c.full})
		require.Equal(t, c.want != "", ok, name)
		if ok {
			require.Equal(t, c.want, m.Name, name)
		}
	}
}
