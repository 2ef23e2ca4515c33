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
	"github.com/modelgate/modelgate/jobsvc/config"
	"github.com/modelgate/modelgate/jobsvc/queue"
)

const (
	// queueKind is the kind of the one item whose claim makes a replica the one that asks providers. It is never done.
	queueKind = "listing"
	queueItem = "all"

	listTimeout = 30 * time.Second
	atOnce      = 4
	// maxListed and maxListing bound what is kept of a provider: models, and their bytes.
	maxListed  = 5000
	maxListing = 1 << 20
	maxName    = 256 // bytes
)

// Run asks providers for their models until ctx ends, on one of all replicas.
func (s *Service) Run(ctx context.Context) {
	s.Queue.WorkAlone(ctx, s.Store, queue.Item{Kind: queueKind, ID: queueItem},
		func(ctx context.Context, _ *queue.Claim) error {
			(&lister{Service: s, asked: map[string]*asked{}}).run(ctx)
			return nil
		})
}

// A lister keeps the Listings equal to what providers say. It is used by one goroutine.
type lister struct {
	*Service
	asked map[string]*asked // by provider
	swept *config.Config    // for which Listings of providers that are gone were deleted
}

// asked is what is known of one provider. While it is being asked, it belongs to who asks.
type asked struct {
	config *configv1.Provider // with which it was asked last
	next   time.Time
	failed string // how, the last time; empty: it was not
}

func (l *lister) run(ctx context.Context) {
	ticker := time.NewTicker(l.Check)
	defer ticker.Stop()
	for {
		l.round(ctx, time.Now())
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// round asks the providers that are due, and waits for them.
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
	_ = asking.Wait() // what goes wrong is logged
	if l.swept != current && ctx.Err() == nil {
		l.sweep(ctx, current)
	}
}

// ask asks one provider, logs what has changed since the last time, and reports whether all went well.
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

// list asks a provider and stores what it says, where that is new.
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

// bounded returns the models that are kept of a list: sorted, each once, and no more than an object of the
// configuration holds.
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
		// As JSON: its members' names, a time, and every other byte perhaps escaped.
		size += 80 + 2*(len(m.GetId())+len(m.GetOwnedBy()))
		if i == maxListed || size > maxListing {
			return kept[:i]
		}
	}
	return kept
}

// fits reports whether a text can stand in a configuration.
func fits(s string) bool {
	return len(s) <= maxName && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// sweep deletes the Listings of providers that are gone, or list nothing any more.
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
