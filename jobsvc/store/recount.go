package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Counted are objects that count for quotas: a Kind whose Counts is not nil.
type Counted interface {
	// each calls f with what each object of an organization counts for, as they were at a revision.
	each(ctx context.Context, s *Store, organization string, revision int64, f func(Owner, Amounts)) error
}

// recountTimeout bounds how long what one organization has is counted.
const recountTimeout = time.Minute

// get reads one key.
func (s *Store) get(ctx context.Context, key string) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return s.etcd.Get(ctx, key)
}

// scan reads all keys with a prefix as they were at a revision, in parts.
func (s *Store) scan(ctx context.Context, prefix string, revision int64, f func(*mvccpb.KeyValue) error) error {
	from, end := prefix, clientv3.GetPrefixRangeEnd(prefix)
	for {
		r, err := s.etcd.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(chunk), clientv3.WithRev(revision))
		if err != nil {
			return fmt.Errorf("count: %w", err)
		}
		for _, kv := range r.Kvs {
			if err := f(kv); err != nil {
				return err
			}
			from = string(kv.Key) + "\x00"
		}
		if !r.More {
			return nil
		}
	}
}

func (k Kind[T]) each(ctx context.Context, s *Store, organization string, revision int64,
	f func(Owner, Amounts)) error {
	from := Root + k.Name + "/" + url.QueryEscape(organization) + "/"
	end := clientv3.GetPrefixRangeEnd(from)
	records := k
	records.Ended = nil // what is archived is in segments
	for {
		got, err := records.read(ctx, s, Tenant{}, from, end, clientv3.WithLimit(chunk), clientv3.WithRev(revision))
		if err != nil {
			return fmt.Errorf("count %s: %w", k.Name, err)
		}
		for _, r := range got.records {
			f(Owner{r.Tenant, r.counted.key}, r.counted.amounts)
		}
		if !got.more {
			return k.eachSegment(ctx, s, organization, revision, f)
		}
		from = got.next
	}
}

func (k Kind[T]) eachSegment(ctx context.Context, s *Store, organization string, revision int64,
	f func(Owner, Amounts)) error {
	return s.scan(ctx, segmentsRoot+k.Name+"/"+url.QueryEscape(organization)+"/", revision,
		func(kv *mvccpb.KeyValue) error {
			segment, err := parseSegment(kv)
			if err == nil {
				f(Owner{Tenant: segment.Tenant}, segment.Counts)
			}
			return err
		})
}

// recount counts what all accounts of an organization use, or all keys without one, as it was at a revision.
func (s *Store) recount(ctx context.Context, organization string, revision int64) (map[Account]Amounts, error) {
	ctx, cancel := context.WithTimeout(ctx, recountTimeout)
	defer cancel()
	counted := map[Account]Amounts{}
	for _, kind := range s.tally.kinds {
		err := kind.each(ctx, s, organization, revision, func(o Owner, amounts Amounts) {
			for _, a := range o.Accounts() {
				counted[a] = counted[a].plus(amounts)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return counted, nil
}

// A Correction is an error that a recount has found.
type Correction struct {
	Account Account
	Wrong   Amounts // what was counted too much, or less than 0: too little
}

// Recount counts again what all accounts use, and corrects what was counted wrong, such as by replicas of a version
// that did not count. It is exact whatever changes meanwhile: the difference is that at one revision, and every change
// since adds to it.
func (s *Store) Recount(ctx context.Context) ([]Correction, error) {
	usages, revision, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	var found []Correction
	counted := map[string]map[Account]Amounts{}
	for a, was := range usages {
		if counted[a.Organization] == nil {
			if counted[a.Organization], err = s.recount(ctx, a.Organization, revision); err != nil {
				return found, err
			}
		}
		wrong := was.Counted.minus(counted[a.Organization][a])
		if wrong == (Amounts{}) {
			continue
		}
		corrected, err := s.correct(ctx, a, was.Recounts, wrong)
		if err != nil {
			return found, err
		}
		if corrected {
			found = append(found, Correction{a, wrong})
		}
	}
	return found, nil
}

// correct takes away what was counted too much, unless another recount has corrected the account already.
func (s *Store) correct(ctx context.Context, a Account, recounts int64, wrong Amounts) (bool, error) {
	done, err := s.begin(ctx, []Account{a})
	if err != nil {
		return false, err
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	for range busyTries {
		r, err := s.etcd.Get(ctx, a.path())
		if err != nil {
			return false, fmt.Errorf("read usage: %w", err)
		}
		var u Usage
		if len(r.Kvs) == 0 || json.Unmarshal(r.Kvs[0].Value, &u) == nil && u.Recounts != recounts {
			return false, nil
		}
		u.Counted, u.Recounts = u.Counted.minus(wrong), u.Recounts+1
		text, err := json.Marshal(u)
		if err != nil {
			return false, err
		}
		put, err := s.etcd.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(a.path()), "=", r.Kvs[0].ModRevision)).
			Then(clientv3.OpPut(a.path(), string(text))).Commit()
		if err != nil {
			return false, fmt.Errorf("write usage: %w", err)
		}
		if put.Succeeded {
			s.tally.known.Keep(a, known{u, put.Header.Revision})
			return true, nil
		}
	}
	return false, ErrBusy
}

// Usages returns what all accounts use that have been counted.
func (s *Store) Usages(ctx context.Context) (map[Account]Usage, error) {
	usages, _, err := s.read(ctx)
	return usages, err
}

func (s *Store) read(ctx context.Context) (map[Account]Usage, int64, error) {
	now, err := s.etcd.Get(ctx, usageRoot, clientv3.WithCountOnly())
	if err != nil {
		return nil, 0, fmt.Errorf("read usage: %w", err)
	}
	usages := map[Account]Usage{}
	err = s.scan(ctx, usageRoot, now.Header.Revision, func(kv *mvccpb.KeyValue) error {
		a, ok := accountAt(string(kv.Key))
		var u Usage
		if err := json.Unmarshal(kv.Value, &u); err != nil || !ok {
			return fmt.Errorf("usage %s: %w", kv.Key, errors.Join(err, ErrNotFound))
		}
		usages[a] = u
		return nil
	})
	return usages, now.Header.Revision, err
}

// answers are the remembered answers.
type answers struct{}

func (answers) each(ctx context.Context, s *Store, organization string, revision int64, f func(Owner, Amounts)) error {
	prefix := Root + KindIdempotency + "/" + url.QueryEscape(organization) + "/"
	return s.scan(ctx, prefix, revision, func(kv *mvccpb.KeyValue) error {
		escaped, _, _ := strings.Cut(strings.TrimPrefix(string(kv.Key), prefix), "/")
		project, err := url.QueryUnescape(escaped)
		var a Answer
		if err = errors.Join(err, json.Unmarshal(kv.Value, &a)); err != nil {
			return fmt.Errorf("answer %s: %w", kv.Key, err)
		}
		f(Owner{Tenant{organization, project}, a.By}, a.amounts())
		return nil
	})
}
