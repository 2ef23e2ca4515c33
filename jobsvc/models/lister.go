package models

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/timing"
	"github.com/modelgate/modelgate/jobsvc/config"
	"github.com/modelgate/modelgate/jobsvc/queue"
)

const (
	// queueKind is the kind of a single item that never ends. The replica with its claim lists the models of providers.
	queueKind = "listing"
	queueItem = "all"

	listTimeout = 30 * time.Second
	atOnce      = 4
	// maxListed and maxListing bound the stored models of a provider, and their bytes.
	maxListed  = 5000
	maxListing = 1 << 20
	maxName    = 256 // bytes
)

// Run lists the models of providers until ctx ends, on one of all replicas.
func (s *Service) Run(ctx context.Context) {
	s.Queue.WorkAlone(ctx, s.Store, queue.Item{Kind: queueKind, ID: queueItem},
		func(ctx context.Context, _ *queue.Claim) error {
			(&lister{Service: s, asked: map[string]*asked{}}).run(ctx)
			return nil
		})
}

// A lister updates the Listings from the answers of providers. One goroutine uses it.
type lister struct {
	*Service
	asked map[string]*asked // by provider
	swept *config.Config    // the configuration at the last deletion of unused Listings
}

// asked is the state of one provider. During a request, it belongs to the goroutine of the request.
type asked struct {
	config *configv1.Provider // at the last request
	next   time.Time
	failed string // the last error; may be empty
}

func (l *lister) run(ctx context.Context) {
	_ = timing.Every(ctx, l.Check, func() { l.round(ctx, time.Now()) })
}

// round asks all providers that are due, and waits for them.
func (l *lister) round(ctx context.Context, now time.Time) {
	current := l.Config()
	if current == nil {
		return
	}
	var asking errgroup.Group
	asking.SetLimit(atOnce)
	for name, p := range current.Providers {
		a := l.asked[name]
		if p.Vendor.Models == nil || a != nil && now.Before(a.next) && proto.Equal(a.config, p.Config) {
			continue
		}
		if a == nil {
			a = &asked{}
			l.asked[name] = a
		}
		a.config = p.Config
		asking.Go(func() error {
			a.next = now.Add(l.Interval)
			if !l.ask(ctx, a, p) {
				a.next = now.Add(l.Interval / 10)
			}
			return nil
		})
	}
	_ = asking.Wait() // errors are logged
	if l.swept != current && ctx.Err() == nil {
		l.sweep(ctx, current)
	}
}

// ask asks one provider, logs a change since the last time, and reports whether it succeeded.
func (l *lister) ask(ctx context.Context, a *asked, p *config.Provider) bool {
	name := p.Config.GetName()
	err := l.list(ctx, p)
	switch {
	case err == nil && a.failed != "":
		l.Log.Info("a provider lists its models again", zap.String("provider", name))
		a.failed = ""
	case err != nil && ctx.Err() == nil && a.failed != err.Error():
		l.Log.Warn("a provider did not list its models; its last list stays", zap.String("provider", name), zap.Error(err))
		a.failed = err.Error()
	}
	return err == nil
}

// list asks a provider for its models and stores them if they have changed.
func (l *lister) list(ctx context.Context, p *config.Provider) error {
	limited, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	said, err := p.Vendor.Models(limited, l.Gateway.Provider(p))
	if err != nil {
		return err
	}
	listing := &configv1.Listing{Name: p.Config.GetName(), Models: bounded(said)}
	write, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	before, err := l.Objects.Get(write, configv1.KindOf(listing), listing.GetName())
	switch {
	case errors.Is(err, configstore.ErrNotFound):
	case err != nil:
		return err
	case before.Err == nil && proto.Equal(before.Object, listing):
		return nil
	}
	if _, err := l.Objects.Put(write, listing, before.Revision); err != nil {
		return fmt.Errorf("store what it lists: %w", err)
	}
	return nil
}

// bounded returns the models of a list that are stored: sorted, without duplicates, and as many as an object of the
// configuration can have.
func bounded(said []*configv1.ListedModel) []*configv1.ListedModel {
	kept := make([]*configv1.ListedModel, 0, len(said))
	for _, m := range said {
		if m.GetId() != "" && fits(m.GetId()) {
			one := &configv1.ListedModel{Id: m.GetId(), Created: max(m.GetCreated(), 0)}
			if fits(m.GetOwnedBy()) {
				one.OwnedBy = m.GetOwnedBy()
			}
			kept = append(kept, one)
		}
	}
	slices.SortStableFunc(kept, func(a, b *configv1.ListedModel) int { return strings.Compare(a.GetId(), b.GetId()) })
	kept = slices.CompactFunc(kept, func(a, b *configv1.ListedModel) bool { return a.GetId() == b.GetId() })
	size := 0
	for i, m := range kept {
		// The size as JSON: the names of members, a time, and every other byte possibly escaped.
		size += 80 + 2*(len(m.GetId())+len(m.GetOwnedBy()))
		if i == maxListed || size > maxListing {
			return kept[:i]
		}
	}
	return kept
}

// fits reports whether a text is valid in the configuration.
func fits(s string) bool {
	return len(s) <= maxName && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// sweep deletes the Listings of providers that were removed, or do not list models any more.
func (l *lister) sweep(ctx context.Context, current *config.Config) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	lists := func(name string) bool { p := current.Providers[name]; return p != nil && p.Vendor.Models != nil }
	for name := range l.asked {
		if !lists(name) {
			delete(l.asked, name)
		}
	}
	kind := configv1.KindOf((*configv1.Listing)(nil))
	entries, err := l.Objects.List(ctx, kind)
	for _, e := range entries {
		if !lists(e.Name) && err == nil {
			_, err = l.Objects.Delete(ctx, kind, e.Name, e.Revision)
		}
	}
	if err != nil {
		l.Log.Warn("what providers that are gone had listed was not deleted; trying again", zap.Error(err))
		return
	}
	l.swept = current
}
