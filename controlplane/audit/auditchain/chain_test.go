package auditchain_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/audit/auditchain"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func entry(i int) adminapi.AuditEntry {
	return adminapi.AuditEntry{ID: fmt.Sprintf("%04d", i), At: noon.Add(time.Duration(i) * 12 * time.Hour), Actor: "ann",
		Action: "update", Kind: "Key", Name: fmt.Sprint("key_", i), Diff: "-a\n+<b>\u2028"}
}

// chain returns a chain of n entries, linked a few at once.
func chain(t *testing.T, n int) (all []adminapi.AuditEntry, head auditchain.Head) {
	t.Helper()
	for i := range n {
		all = append(all, entry(i+1))
	}
	for some := range slices.Chunk(all, 3) {
		var err error
		head, err = head.Link(some)
		require.NoError(t, err)
	}
	return all, head
}

func verify(all []adminapi.AuditEntry, head auditchain.Head, noted string) adminapi.AuditVerification {
	v := auditchain.NewVerifier(noted)
	for _, e := range all {
		v.Add(e)
	}
	return v.End(head)
}

func TestAWholeChainIsIntact(t *testing.T) {
	all, head := chain(t, 10)
	require.Equal(t, auditchain.Head{Sequence: 10, Hash: all[9].Hash, ID: "0010"}, head)
	found := verify(all, head, "")
	require.True(t, found.Intact, found)
	require.Equal(t, []int64{10, 10, 1, 10, 10}, []int64{found.Entries, found.Chained, found.First, found.Last,
		found.HeadSequence})
	require.Equal(t, head.Hash, found.Head)

	require.True(t, verify(nil, auditchain.Head{}, "").Intact, "an empty log")
	found = verify(all[4:], head, all[3].Hash)
	require.True(t, found.Intact, "older ones have expired")
	require.Equal(t, int64(5), found.First)
	require.Equal(t, int64(4), found.Noted.Sequence, "of the last that has expired the hash is known")
}

func TestTheHashIsOverCanonicalJSON(t *testing.T) {
	e := adminapi.AuditEntry{ID: "01", At: noon, Actor: "a", Address: "::1", Action: "create", Sequence: 2,
		Previous: "ab", Hash: "is not part of it"}
	hash, err := auditchain.Hash(e)
	require.NoError(t, err)
	// As printf | sha256sum says it of
	// ab{"action":"create","actor":"a","address":"::1","at":"2026-11-20T12:00:00Z","id":"01","sequence":2}
	require.Equal(t, "a6538fcc6d57f239efb46ab39faba26313dac6d9cca751ee00935d396cdebcb8", hash)
}

func TestEveryBreakIsFound(t *testing.T) {
	type log = []adminapi.AuditEntry
	for name, c := range map[string]struct {
		change   func(all log, head *auditchain.Head) log
		kind     string
		sequence int64
	}{
		"a changed entry": {func(all log, _ *auditchain.Head) log { all[4].Actor = "bob"; return all }, "changed", 5},
		"a changed time":  {func(all log, _ *auditchain.Head) log { all[4].At = noon; return all }, "changed", 5},
		"a changed oldest entry": {func(all log, _ *auditchain.Head) log { all[3].Diff = ""; return all[3:] },
			"changed", 4},
		"a changed entry with a hash of its own": {func(all log, _ *auditchain.Head) log {
			all[4].Actor = "bob"
			all[4].Hash, _ = auditchain.Hash(all[4])
			return all
		}, "changed", 6},
		"a changed newest entry with a hash of its own": {func(all log, _ *auditchain.Head) log {
			all[9].Actor = "bob"
			all[9].Hash, _ = auditchain.Hash(all[9])
			return all
		}, "head", 10},
		"all written again from one on": {func(all log, _ *auditchain.Head) log {
			all[4].Actor = "bob"
			_, _ = auditchain.Head{Sequence: 4, Hash: all[3].Hash}.Link(all[4:])
			return all
		}, "head", 10},
		"a removed entry":        {func(all log, _ *auditchain.Head) log { return slices.Delete(all, 4, 5) }, "missing", 5},
		"some removed entries":   {func(all log, _ *auditchain.Head) log { return slices.Delete(all, 2, 6) }, "missing", 3},
		"a removed newest entry": {func(all log, _ *auditchain.Head) log { return all[:9] }, "missing", 10},
		"all removed":            {func(log, *auditchain.Head) log { return nil }, "missing", 1},
		"an inserted entry that has the next sequence": {func(all log, _ *auditchain.Head) log {
			e := log{entry(99)}
			_, _ = auditchain.Head{Sequence: 4, Hash: all[3].Hash}.Link(e)
			return slices.Insert(all, 4, e...)
		}, "inserted", 5},
		"an entry twice": {func(all log, _ *auditchain.Head) log { return slices.Insert(all, 5, all[4]) }, "inserted", 5},
		"an inserted entry at the end": {func(all log, head *auditchain.Head) log {
			e := log{entry(99)}
			_, _ = head.Link(e)
			return append(all, e...)
		}, "head", 10},
		"an entry that was put outside the chain": {func(all log, _ *auditchain.Head) log {
			auditchain.Unlink(all[4:5])
			return all
		}, "missing", 5},
		"a replaced head": {func(all log, head *auditchain.Head) log { head.Hash = all[2].Hash; return all }, "head", 10},
		"an older head": {func(all log, head *auditchain.Head) log {
			head.Sequence, head.Hash = 3, all[2].Hash
			return all
		}, "head", 3},
		"no head": {func(all log, head *auditchain.Head) log { *head = auditchain.Head{}; return all }, "head", 10},
		"two breaks": {func(all log, _ *auditchain.Head) log {
			all[8].Actor = "bob"
			return slices.Delete(all, 1, 2)
		}, "missing", 2},
	} {
		t.Run(name, func(t *testing.T) {
			all, head := chain(t, 10)
			found := verify(c.change(all, &head), head, "")
			require.False(t, found.Intact)
			require.NotNil(t, found.Break)
			require.Equal(t, c.kind, found.Break.Kind, found.Break)
			require.Equal(t, c.sequence, found.Break.Sequence, found.Break)
			require.NotEmpty(t, found.Break.Message)
		})
	}
}

func TestEntriesOutsideTheChain(t *testing.T) {
	all, head := chain(t, 10)
	before, later := entry(0), entry(5)
	before.ID, later.ID = "0000", "0005a"
	found := verify(slices.Insert(slices.Clone(all), 0, before), head, "")
	require.False(t, found.Intact, "also before its first entry")
	require.Equal(t, []int64{11, 10, 1}, []int64{found.Entries, found.Chained, found.Outside})

	with := slices.Insert(slices.Clone(all), 5, later)
	found = verify(with, head, "")
	require.False(t, found.Intact)
	require.Nil(t, found.Break, "it hides no break of the chain")
	require.Equal(t, int64(1), found.Outside)
	require.Equal(t, "0005a", found.FirstOutside)

	hash, err := auditchain.Hash(later)
	require.NoError(t, err)
	vouch := func(hash string) adminapi.AuditVerification {
		e := []adminapi.AuditEntry{{ID: "0011", At: noon, Action: auditchain.Vouch, Name: later.ID, Diff: hash}}
		next, err := head.Link(e)
		require.NoError(t, err)
		return verify(append(slices.Clone(with), e...), next, "")
	}
	found = vouch(hash)
	require.True(t, found.Intact)
	require.Equal(t, []int64{0, 1}, []int64{found.Outside, found.Vouched})
	require.Empty(t, found.FirstOutside)
	require.False(t, vouch("of another").Intact)
}

func TestANotedHeadIsLookedFor(t *testing.T) {
	all, head := chain(t, 10)
	found := verify(all, head, all[6].Hash)
	require.True(t, found.Intact)
	require.Equal(t, &adminapi.NotedHead{Hash: all[6].Hash, Found: true, Sequence: 7}, found.Noted)

	noted := all[6].Hash
	all[2].Actor = "bob" // and all that follows, and the head, written again
	head, err := auditchain.Head{Sequence: 2, Hash: all[1].Hash}.Link(all[2:])
	require.NoError(t, err)
	require.True(t, verify(all, head, "").Intact, "this alone is not seen")
	found = verify(all, head, noted)
	require.False(t, found.Intact)
	require.Nil(t, found.Break)
	require.False(t, found.Noted.Found)
}
