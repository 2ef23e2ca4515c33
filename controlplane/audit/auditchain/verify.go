package auditchain

import (
	"fmt"
	"maps"
	"slices"

	adminapi "github.com/modelgate/modelgate/api/admin"
)

const (
	// Vouch is the action of an entry that gives the hash of one which is outside the chain, because etcd was full: Name
	// is the other's id, Diff its hash.
	Vouch = "vouch"
	// maxOutside bounds what a Verifier keeps of entries outside the chain.
	maxOutside = 10_000
)

// A Verifier reads a log from its oldest entry to its newest, and says whether it is whole.
type Verifier struct {
	found   adminapi.AuditVerification
	newest  Head              // the newest entry of the chain that was read
	outside map[string]string // hashes of entries outside the chain that no entry vouches for, by id
}

// NewVerifier returns a verifier of one log. Noted is the hash of a head that is to be in the chain; empty: none.
func NewVerifier(noted string) *Verifier {
	v := &Verifier{outside: map[string]string{}}
	if noted != "" {
		v.found.Noted = &adminapi.NotedHead{Hash: noted}
	}
	return v
}

// Newest returns the newest entry of the chain that was read.
func (v *Verifier) Newest() Head { return v.newest }

// Add reads the next entry. Ids ascend.
func (v *Verifier) Add(e adminapi.AuditEntry) {
	v.found.Entries++
	if e.Sequence == 0 && e.Hash == "" {
		v.addOutside(e)
		return
	}
	v.found.Chained++
	if v.found.First == 0 {
		v.found.First, v.found.FirstAt = e.Sequence, &e.At
	} else if v.found.Break == nil {
		v.follows(e)
	}
	if hash, err := Hash(e); err != nil || hash != e.Hash {
		v.broken("changed", e.Sequence, e.ID, "The entry %d (%s) is not what was written: it does not have its hash.",
			e.Sequence, e.ID)
	}
	v.note(e.Sequence-1, e.Previous)
	v.note(e.Sequence, e.Hash)
	if hash, is := v.outside[e.Name]; is && e.Action == Vouch && hash == e.Diff && v.found.Break == nil {
		delete(v.outside, e.Name)
		v.found.Outside--
		v.found.Vouched++
	}
	v.newest = Head{Sequence: e.Sequence, Hash: e.Hash, ID: e.ID}
}

// note looks whether the chain had the head that was noted.
func (v *Verifier) note(sequence int64, hash string) {
	if n := v.found.Noted; n != nil && n.Hash == hash {
		n.Found, n.Sequence = true, sequence
	}
}

// follows checks that an entry comes after the one before.
func (v *Verifier) follows(e adminapi.AuditEntry) {
	switch next := v.newest.Sequence + 1; {
	case e.Sequence > next:
		v.missing(next)
	case e.Sequence < next:
		v.broken("inserted", e.Sequence, e.ID, "The entry %d (%s) comes after the entry %d.", e.Sequence, e.ID, next-1)
	case e.Previous != v.newest.Hash:
		v.broken("changed", e.Sequence, e.ID, "The entry %d (%s) was written after another entry %d than there is.",
			e.Sequence, e.ID, next-1)
	}
}

func (v *Verifier) addOutside(e adminapi.AuditEntry) {
	v.found.Outside++
	if hash, err := Hash(e); err == nil && len(v.outside) < maxOutside {
		v.outside[e.ID] = hash
	}
}

func (v *Verifier) missing(sequence int64) {
	v.broken("missing", sequence, "", "The entry %d is missing.", sequence)
}

// broken notes the first break.
func (v *Verifier) broken(kind string, sequence int64, id, format string, values ...any) {
	if v.found.Break == nil {
		v.found.Break = &adminapi.AuditBreak{Kind: kind, Sequence: sequence, ID: id, Message: fmt.Sprintf(format, values...)}
	}
}

// End returns what was found in a log with this head. There is none if Sequence is 0.
func (v *Verifier) End(head Head) adminapi.AuditVerification {
	switch newest := v.newest; {
	case head.Sequence == 0 && newest.Sequence > 0:
		v.broken("head", newest.Sequence, "", "The head of the chain is missing.")
	case newest.Sequence < head.Sequence:
		v.missing(newest.Sequence + 1)
	case newest.Sequence != head.Sequence || newest.Hash != head.Hash:
		v.broken("head", head.Sequence, "", "The head of the chain is of another entry %d than there is.", head.Sequence)
	}
	f := v.found
	f.Last, f.HeadSequence, f.Head = v.newest.Sequence, head.Sequence, head.Hash
	if known := slices.Sorted(maps.Keys(v.outside)); len(known) > 0 {
		f.FirstOutside = known[0]
	}
	f.Intact = f.Break == nil && f.Outside == 0 && (f.Noted == nil || f.Noted.Found)
	return f
}
