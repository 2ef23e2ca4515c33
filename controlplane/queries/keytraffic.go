package queries

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/internal/configstore"
)

const (
	// mostRejected is how many refused keys are named.
	mostRejected = 20
	// mostSearched is how many refused keys are read, for those who may see a part of them.
	mostSearched = 1000
)

// KeyTraffic returns what keys did in a time, and which were refused most, as far as the caller may see them.
func (q *Service) KeyTraffic(ctx context.Context, from, to time.Time, keys []string) (adminapi.KeyTraffic, error) {
	out := adminapi.KeyTraffic{Start: from, End: to, Items: []adminapi.KeyUse{}, Rejected: []adminapi.RejectedKey{}}
	for _, key := range keys {
		if !q.seesKey(ctx, key) {
			return out, fmt.Errorf("Key %s: %w", key, configstore.ErrNotFound)
		}
	}
	t := keyTraffic{q, &out}
	var err error
	if len(keys) > 0 {
		err = t.addKeyUses(ctx, keys)
	}
	if err == nil {
		err = t.addRejected(ctx)
	}
	if err != nil {
		err = ledger.Unavailable(err)
	}
	return out, err
}

// seesKey reports whether the caller may see a key. Who is not restricted also sees those that are deleted.
func (q *Service) seesKey(ctx context.Context, id string) bool {
	caller, _ := authz.PrincipalOf(ctx)
	if caller.Tenant.IsAll() {
		return true
	}
	_, keys := q.options.Plane.Keys()
	k, ok := keys[id]
	return ok && caller.Sees(k)
}

// A keyTraffic gathers an answer.
type keyTraffic struct {
	*Service
	out *adminapi.KeyTraffic
}

// addKeyUses adds what keys did. What they used is what usage by key says.
func (t keyTraffic) addKeyUses(ctx context.Context, keys []string) error {
	out := t.out
	width := "1h"
	if time.Since(out.Start) > 9*24*time.Hour {
		width = "1d"
	}
	used, err := t.options.Ledger.Series(ctx, url.Values{"by": {"key"}, "key": keys, "width": {width}, "detailed": {"0"},
		"start": {strconv.FormatInt(out.Start.Unix(), 10)}, "end": {strconv.FormatInt(out.End.Unix(), 10)}})
	if err != nil {
		return err
	}
	refused, err := t.options.Ledger.RejectedKeys(ctx, used.Start, used.End, len(keys), keys...)
	if err != nil {
		return err
	}
	last, err := t.options.Ledger.LastUsed(ctx, keys...)
	if err != nil {
		return err
	}
	for _, key := range keys {
		use := adminapi.KeyUse{Key: key, CostUSD: "0"}
		if i := slices.IndexFunc(used.Groups, func(g adminapi.SeriesGroup) bool { return g.Name == key }); i >= 0 {
			use.Requests, use.Errors, use.CostUSD = used.Groups[i].Requests, used.Groups[i].Errors, used.Groups[i].CostUSD
		}
		if i := slices.IndexFunc(refused, func(r ledger.Rejected) bool { return r.Key == key }); i >= 0 {
			use.Refused = refused[i].Requests
		}
		if at, ok := last[key]; ok {
			use.LastUsed = &at
		}
		out.Items = append(out.Items, use)
	}
	return nil
}

// addRejected adds the keys that were refused most, and for those who are not restricted also what is known of unknown
// ones.
func (t keyTraffic) addRejected(ctx context.Context) error {
	out := t.out
	all, err := t.options.Ledger.RejectedKeys(ctx, out.Start, out.End, mostSearched)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(r ledger.Rejected) bool { return !t.seesKey(ctx, r.Key) })
	if caller, _ := authz.PrincipalOf(ctx); caller.Tenant.IsAll() {
		strangers, err := t.options.Ledger.Strangers(ctx, out.Start, out.End)
		if err != nil {
			return err
		}
		all = append(all, strangers...)
	}
	slices.SortStableFunc(all, func(a, b ledger.Rejected) int { return cmp.Compare(b.Requests, a.Requests) })
	out.RejectedLeftOut = max(len(all)-mostRejected, 0)
	revision, known := t.options.Plane.Keys()
	mayRead := authz.Needs(ctx, authz.KeysRead) == nil
	for _, r := range all[:len(all)-out.RejectedLeftOut] {
		is := adminapi.RejectedKey{Key: r.Key, Hint: r.Hint, Refused: r.Requests}
		if r.Key != "" {
			key, found := known[r.Key]
			if is.KeyDeleted = !found && revision > 0; mayRead {
				is.KeyName = configv1.DisplayName(key)
			}
			if r.Last, err = t.options.Ledger.LastRefused(ctx, out.Start, r.Key); err != nil {
				return err
			}
		}
		if !r.Last.IsZero() {
			is.Last = &r.Last
		}
		out.Rejected = append(out.Rejected, is)
	}
	return nil
}
