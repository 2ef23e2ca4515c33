// Package etcdspace prevents etcd from getting full. etcd has a quota. If its database reaches the quota, etcd raises
// the alarm NOSPACE and refuses writes on all members until there is space and the alarm is disarmed. A [Room]
// monitors the size of each member and keeps a reserve that tenants cannot use. A [Keeper] makes space: it compacts,
// defragments and disarms the alarm.
//
// The quota is about the file, which never shrinks by itself. Deleted data becomes free space after a compaction, and
// is used again. Only defragmenting makes the file smaller, and only then can the alarm be disarmed.
package etcdspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Parts of the quota. They are parts in use, except nearlyFull, which is about the file.
const (
	// Noticed is when the gateway begins to say that etcd fills, and Severe when it says that somebody has to act.
	Noticed = 0.60
	Severe  = 0.80
	// forTenants is up to when tenants may create something, and forWork up to when what they have created may be worked
	// on. The rest is for those who administer the gateway.
	forTenants = 0.70
	forWork    = 0.85
	// nearlyFull is the part that the file itself may have before it is an error.
	nearlyFull = 0.90
)

const (
	lookEvery   = 2 * time.Second
	lookTimeout = 3 * time.Second
	// defaultQuota is the quota of an etcd before 3.6. It does not report its own, which then has to be left at its
	// default.
	defaultQuota = 2 << 30
)

// A Member is one member of etcd.
type Member struct {
	ID       uint64
	Name     string
	Endpoint string // the address that was asked; empty within its own process
	Size     int64  // of the file, in bytes
	InUse    int64  // of that, in bytes
	Quota    int64  // 0: none
	Leader   bool
}

func part(n, quota int64) float64 {
	if quota <= 0 {
		return 0
	}
	return float64(n) / float64(quota)
}

// A State is how etcd was when it was last asked. It is not modified.
type State struct {
	Members  []Member // that answered, by name
	Missing  int      // members that did not
	Revision int64
	// Full is that the alarm NOSPACE is raised: etcd takes deletions and nothing else.
	Full   bool
	alarms []*pb.AlarmMember
}

// Fullest returns the member with the largest used part of its quota, and that part.
func (s *State) Fullest() (m Member, used float64) {
	for _, of := range s.Members {
		if p := part(of.InUse, of.Quota); m.Quota == 0 || p > used {
			m, used = of, p
		}
	}
	return m, used
}

// Filled is the largest part of a quota that a file has.
func (s *State) Filled() float64 {
	filled := 0.0
	for _, m := range s.Members {
		filled = max(filled, part(m.Size, m.Quota))
	}
	return filled
}

// Remedy says what an operator does where etcd fills.
const Remedy = "Delete what is not needed, or raise etcd's quota (--etcd-quota of run, --quota-backend-bytes of an etcd of your own); see ModelgateEtcdFilling in docs/operate.md"

// Warning says for people what is wrong with the room, "" if nothing is, and whether somebody has to act.
func (s *State) Warning() (text string, severe bool) {
	m, used := s.Fullest()
	sizes := fmt.Sprintf("%s in use, %s on disk, of a quota of %s", megabytes(m.InUse), megabytes(m.Size),
		megabytes(m.Quota))
	switch {
	case s.Full:
		return "etcd is full (NOSPACE): " + sizes + ". Nothing can be changed but by deleting; traffic goes on", true
	case used >= Severe:
		return fmt.Sprintf("etcd is nearly full: %s. Tenants cannot create anything", sizes), true
	case used >= forTenants:
		return fmt.Sprintf("etcd fills: %s. Tenants cannot create anything; the rest is reserved for administration", sizes), false
	case used >= Noticed:
		return fmt.Sprintf("etcd fills: %s", sizes), false
	case s.Filled() >= nearlyFull:
		return fmt.Sprintf("etcd's file has nearly reached its quota: %s. It has to be defragmented", sizes), true
	}
	return "", false
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

// A Room knows how full etcd is. It is safe for concurrent use.
type Room struct {
	etcd    *clientv3.Client
	log     *zap.Logger
	metrics metrics
	state   atomic.Pointer[State]
	written atomic.Int64 // bytes that were admitted since state was read
}

// New returns a Room that knows nothing before it has looked. Until then it admits everything.
func New(etcd *clientv3.Client, log *zap.Logger) *Room {
	r := &Room{etcd: etcd, log: log, metrics: newMetrics()}
	r.state.Store(&State{})
	return r
}

// State returns how etcd was when it was last asked, and answered.
func (r *Room) State() *State { return r.state.Load() }

// Warning returns the warning of the current state.
func (r *Room) Warning() string {
	text, _ := r.State().Warning()
	return text
}

// Run looks until ctx ends. After each look that etcd has answered it calls then, unless it is nil.
func (r *Room) Run(ctx context.Context, then func(context.Context)) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	told := ""
	for {
		state, err := r.Look(ctx)
		if err != nil && ctx.Err() == nil {
			r.log.Debug("how full etcd is cannot be found out", zap.Error(err))
		}
		if err == nil {
			text, severe := state.Warning()
			told = r.tell(told, text, severe)
			if then != nil {
				then(ctx)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// tell logs what is wrong if it is something else than before, and returns what it is.
func (r *Room) tell(before, text string, severe bool) string {
	kind, _, _ := strings.Cut(text, ":") // without the figures
	if kind == before {
		return before
	}
	switch {
	case text == "":
		r.log.Info("etcd has room again")
	case severe:
		r.log.Error("etcd has no room", zap.String("state", text), zap.String("remedy", Remedy))
	default:
		r.log.Warn("etcd has little room", zap.String("state", text), zap.String("remedy", Remedy))
	}
	return kind
}

// Look asks every member, and keeps what they say. The error is that none has answered.
func (r *Room) Look(ctx context.Context) (*State, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	began := r.written.Load()
	endpoints := r.etcd.Endpoints()
	if len(endpoints) == 0 {
		endpoints = []string{""} // it is in this process
	}
	var listed *clientv3.MemberListResponse
	var alarms *clientv3.AlarmResponse
	var alarmErr error
	var asking sync.WaitGroup
	asking.Go(func() { listed, _ = r.etcd.MemberList(ctx) }) // without it only the endpoints are asked
	asking.Go(func() { alarms, alarmErr = r.etcd.AlarmList(ctx) })
	found := newAsked()
	asking.Go(func() { found.ask(ctx, r.etcd, endpoints) })
	asking.Wait()
	state := &State{}
	if listed != nil {
		found.ask(ctx, r.etcd, found.missing(listed))
		state.Missing = found.name(listed)
	}
	if state.Members = found.members(); len(state.Members) == 0 {
		return nil, errors.Join(append(found.errs, errNoAnswer)...)
	}
	if alarmErr != nil {
		state.alarms, state.Full = r.State().alarms, r.State().Full // the last that is known
	} else {
		for _, a := range alarms.Alarms {
			if a.Alarm == pb.AlarmType_NOSPACE {
				state.alarms, state.Full = append(state.alarms, a), true
			}
		}
	}
	state.Revision = found.revision
	r.state.Store(state)
	r.written.Add(-began)
	r.metrics.set(state)
	return state, nil
}

var errNoAnswer = errors.New("no member of etcd answers")

// asked is what members have answered.
type asked struct {
	mu       sync.Mutex // guards what follows
	by       map[uint64]Member
	revision int64
	errs     []error
}

func newAsked() *asked { return &asked{by: map[uint64]Member{}} }

// ask asks at all endpoints at once.
func (a *asked) ask(ctx context.Context, etcd *clientv3.Client, endpoints []string) {
	var asking sync.WaitGroup
	for _, endpoint := range endpoints {
		asking.Go(func() {
			s, err := etcd.Status(ctx, endpoint)
			a.mu.Lock()
			defer a.mu.Unlock()
			if err != nil {
				a.errs = append(a.errs, fmt.Errorf("%s: %w", endpoint, err))
				return
			}
			id := s.Header.MemberId
			quota := max(cmp.Or(s.DbSizeQuota, defaultQuota), 0) // a negative one is none
			a.by[id] = Member{ID: id, Endpoint: endpoint, Size: s.DbSize, InUse: s.DbSizeInUse, Quota: quota,
				Leader: s.Leader == id}
			a.revision = max(a.revision, s.Header.Revision)
		})
	}
	asking.Wait()
}

// missing returns addresses of members that were not asked: one endpoint may be before several of them.
func (a *asked) missing(all *clientv3.MemberListResponse) []string {
	var endpoints []string
	for _, m := range all.Members {
		if _, ok := a.by[m.ID]; !ok && len(m.ClientURLs) > 0 {
			endpoints = append(endpoints, m.ClientURLs[0])
		}
	}
	return endpoints
}

// name gives members their names, and returns how many have not answered.
func (a *asked) name(all *clientv3.MemberListResponse) (missing int) {
	for _, of := range all.Members {
		if m, ok := a.by[of.ID]; ok {
			m.Name = of.Name
			a.by[of.ID] = m
		} else {
			missing++
		}
	}
	return missing
}

func (a *asked) members() []Member {
	all := make([]Member, 0, len(a.by))
	for _, m := range a.by {
		m.Name = cmp.Or(m.Name, fmt.Sprintf("%x", m.ID))
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b Member) int { return cmp.Compare(a.Name, b.Name) })
	return all
}
