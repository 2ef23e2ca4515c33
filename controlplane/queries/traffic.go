package queries

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/attention"
	"github.com/modelgate/modelgate/controlplane/ledger"
)

const (
	// recent is how far back traffic and refusals are looked at.
	recent = 15 * time.Minute
	// mostFailing is how many providers with errors, and keys with refusals, are looked at one by one.
	mostFailing = 20
	// fewestServed is how many attempts must be served, and none fail, before a provider has recovered.
	fewestServed = 3
	// Statuses of refusals.
	unauthorized, forbidden, notFound, tooMany = 401, 403, 404, 429
	// manyRefusals are refusals of a key that make it worth a look at what else the key does.
	manyRefusals = 20
)

// trafficFacts adds what requests of the last 15 minutes met. A quiet or sound gateway costs one query of the sums.
func (q *Service) trafficFacts(ctx context.Context, f *attention.Facts) (err error) {
	if err = q.recoveries(ctx, f); err != nil {
		return err
	}
	if f.Traffic, err = q.traffic(ctx, f.Now.Add(-recent)); err == nil {
		f.Refusals, err = q.refusals(ctx, f.Now.Add(-recent))
	}
	return err
}

// recoveries finds out which of the providers that have failed in the last 15 minutes do so no more.
func (q *Service) recoveries(ctx context.Context, f *attention.Facts) error {
	f.Recovered = map[string]bool{}
	for _, p := range f.Providers {
		rejects := slices.ContainsFunc(f.Rejected, func(r attention.Rejection) bool { return r.Provider == p.Provider })
		if p.State != adminapi.ProviderFailing && !rejects {
			continue
		}
		minutes, err := q.options.Ledger.Minutes(ctx, p.Provider, f.Now.Add(-recent))
		if err != nil {
			return err
		}
		f.Recovered[p.Provider] = recovered(minutes)
	}
	return nil
}

// recovered reports whether enough attempts were served since the last minute in which one failed.
func recovered(minutes []ledger.Minute) bool {
	served := int64(0)
	for _, m := range slices.Backward(minutes) {
		if m.Failed > 0 {
			break
		}
		served += m.Attempts
	}
	return served >= fewestServed
}

// traffic returns what failed for which model at which provider. What the providers with errors have not answered has
// no provider.
func (q *Service) traffic(ctx context.Context, since time.Time) ([]attention.Traffic, error) {
	by := func(what, provider string) (adminapi.Series, error) {
		values := url.Values{"by": {what}, "width": {"1m"}, "detailed": {"0"}, "order": {"requests"},
			"start": {strconv.FormatInt(since.Unix(), 10)}}
		if provider != "" {
			values.Set("provider", provider)
		}
		return q.options.Ledger.Series(ctx, values)
	}
	all, err := by("model", "")
	if err != nil || all.Errors == 0 {
		return nil, err
	}
	providers, err := by("provider", "")
	if err != nil {
		return nil, err
	}
	failing := slices.DeleteFunc(providers.Groups, func(g adminapi.SeriesGroup) bool {
		return g.Name == "" || g.Errors == 0
	})
	rest := map[string]attention.Traffic{}
	for _, g := range all.Groups {
		rest[g.Name] = attention.Traffic{Model: g.Name, Requests: g.Requests, Failed: g.Errors}
	}
	var found []attention.Traffic
	for _, p := range failing[:min(len(failing), mostFailing)] {
		models, err := by("model", p.Name)
		if err != nil {
			return nil, err
		}
		for _, g := range models.Groups {
			found = append(found, attention.Traffic{Model: g.Name, Provider: p.Name, Requests: g.Requests, Failed: g.Errors})
			r := rest[g.Name]
			r.Requests, r.Failed = r.Requests-g.Requests, r.Failed-g.Errors
			rest[g.Name] = r
		}
	}
	for _, g := range all.Groups {
		found = append(found, rest[g.Name])
	}
	return found, nil
}

// refusals returns what of keys was refused: by limits and budgets, and because of what the key is or may do.
func (q *Service) refusals(ctx context.Context, since time.Time) ([]attention.Refusals, error) {
	limited, err := q.options.Ledger.Refusals(ctx, since, tooMany)
	if err != nil {
		return nil, err
	}
	denied, err := q.options.Ledger.Refusals(ctx, since, unauthorized, forbidden, notFound)
	if err != nil {
		return nil, err
	}
	found := refusalsOf(limited, denied)
	return found, q.nameRefused(ctx, found, since)
}

// refusalsOf returns what was refused, but for models that do not exist. Nor does a key find a model that it may not
// use, but that has a rule.
func refusalsOf(limited, denied []ledger.Refusal) (all []attention.Refusals) {
	for _, r := range limited {
		all = append(all, attention.Refusals{Key: r.Key, Known: true, By: r.By, Requests: r.Requests})
	}
	for _, r := range denied {
		if r.Status == notFound && !strings.HasPrefix(r.By, "key/") && !strings.HasPrefix(r.By, "model/") {
			continue
		}
		all = append(all, attention.Refusals{Key: cmp.Or(r.Key, r.Hint), Known: r.Key != "", By: r.By, Code: r.Code,
			Requests: r.Requests})
	}
	return all
}

// nameRefused adds the names of keys, and how much else those do that were refused often.
func (q *Service) nameRefused(ctx context.Context, all []attention.Refusals, since time.Time) error {
	asked := 0
	for i := range all {
		r := &all[i]
		if !r.Known {
			continue
		}
		r.Name = q.KeyName(r.Key)
		if r.Requests < manyRefusals || asked == mostFailing {
			continue
		}
		asked++
		var err error
		if r.Served, _, err = q.options.Ledger.Failures(ctx, since, ledger.Restriction{Key: r.Key}, ""); err != nil {
			return err
		}
	}
	return nil
}
