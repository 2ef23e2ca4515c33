package auditship

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/audit/auditchain"
)

const (
	// maxEntries and maxBytes bound a batch. An entry that is larger alone is a batch of its own.
	maxEntries = 200
	maxBytes   = 512 << 10
	// near is how many entries are looked at for one that has an id.
	near = 50
)

// An item is an entry, and as JSON without line breaks.
type item struct {
	adminapi.AuditEntry
	json []byte
}

// A batch is delivered at once. It is not empty if it is sent.
type batch struct {
	items []item
	bytes int
	after position // once it is delivered
	more  bool     // there are entries after it
	// gap is the sequence of an entry at which it ends, because those before may come yet; 0: it ends by itself.
	gap int64
}

// id returns the same for the same entries.
func (b batch) id() string {
	h := sha256.New()
	for _, i := range b.items {
		_, _ = fmt.Fprintln(h, i.ID)
	}
	return "audit_" + hex.EncodeToString(h.Sum(nil)[:16])
}

// next returns what is to be delivered now. It may be empty.
func (f *follower) next(ctx context.Context) (batch, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	b, err := f.read(ctx)
	if err != nil || b.gap == 0 || len(b.items) > 0 {
		return b, err
	}
	pending, err := f.options.Chain.Pending(ctx, b.gap)
	if err != nil || pending {
		return batch{}, err
	}
	f.confirmed = b.gap // what came to the ledger since is read now, and the rest will not come
	return f.read(ctx)
}

// read returns the entries after the position, as far as they are one batch.
func (f *follower) read(ctx context.Context) (batch, error) {
	b := batch{after: f.at}
	from, err := f.from(ctx)
	if err != nil {
		return b, err
	}
	for {
		page, err := f.options.Ledger.AuditAfter(ctx, from, maxEntries)
		if err != nil {
			return b, err
		}
		for _, e := range page {
			fits, err := f.take(ctx, &b, e)
			if err != nil || !fits {
				return b, err
			}
			from = e.ID
		}
		if b.more = len(page) == maxEntries; !b.more || len(b.items) > 0 {
			return b, nil
		}
	}
}

// from returns the id after which to read. That of the newest entry of the chain is it: entries outside the chain come
// to the ledger at once, before some of the chain that have lower ids.
func (f *follower) from(ctx context.Context) (string, error) {
	if f.at.Sequence > 0 || f.at.Outside <= f.at.ID {
		return f.at.ID, nil
	}
	// There may be very many from before the chain. They are not read again, unless the chain begins among them.
	oldest, _, err := f.options.Ledger.AuditEnds(ctx)
	if err != nil || oldest.Sequence > 0 && oldest.ID < f.at.Outside {
		return f.at.ID, err
	}
	return f.at.Outside, nil
}

// take adds an entry to a batch, unless it has been delivered, and reports whether more may follow.
func (f *follower) take(ctx context.Context, b *batch, e adminapi.AuditEntry) (bool, error) {
	outside := e.Sequence == 0
	missing := int64(0)
	if b.after.Sequence > 0 {
		missing = max(0, e.Sequence-b.after.Sequence-1)
	}
	switch {
	case outside && e.ID <= b.after.Outside:
		return true, nil
	case missing > 0 && e.Sequence > f.confirmed:
		b.gap = e.Sequence
		return false, nil
	}
	some := []adminapi.AuditEntry{e}
	if e.Action == auditchain.Vouch && !outside {
		other, err := f.vouched(ctx, *b, e.Name)
		if err != nil {
			return false, err
		}
		some = append(other, e)
	}
	items, size, err := itemsOf(some)
	if err != nil {
		return false, err
	}
	most := max(1, maxEntries>>min(f.halved, 16))
	if n := len(b.items); n > 0 && (n+len(items) > most || b.bytes+size > maxBytes) {
		b.more = true
		return false, nil
	}
	b.items, b.bytes = append(b.items, items...), b.bytes+size
	if outside {
		b.after.Outside = e.ID
	} else {
		b.after.Sequence, b.after.ID = e.Sequence, e.ID
		b.after.Missing += missing
	}
	return true, nil
}

// vouched returns the entry outside the chain that one of the chain vouches for, unless it is in the batch. It is
// delivered with that one, maybe again: it may have come to the ledger after others with higher ids.
func (f *follower) vouched(ctx context.Context, b batch, id string) ([]adminapi.AuditEntry, error) {
	has := func(e adminapi.AuditEntry) bool { return e.ID == id && e.Sequence == 0 }
	if id == "" || slices.ContainsFunc(b.items, func(i item) bool { return has(i.AuditEntry) }) {
		return nil, nil
	}
	page, err := f.options.Ledger.AuditAfter(ctx, id[:len(id)-1], near)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(page, has); i >= 0 {
		return page[i : i+1 : i+1], nil
	}
	return nil, nil
}

func itemsOf(entries []adminapi.AuditEntry) (items []item, size int, err error) {
	for _, e := range entries {
		text, err := json.Marshal(e)
		if err != nil {
			return nil, 0, fmt.Errorf("writing an entry of the audit log: %w", err)
		}
		items, size = append(items, item{e, text}), size+len(text)
	}
	return items, size, nil
}
