package config

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/id"
	"github.com/modelgate/modelgate/internal/timing"
)

const (
	// maxWaiting bounds the changes that wait. maxAsked bounds those of one asker, and those of all people of one
	// organization together. maxWaitingBytes bounds the object of each.
	maxWaiting      = 1000
	maxAsked        = 100
	maxWaitingBytes = 16 << 10
	// maxReason bounds why a change is rejected, in bytes.
	maxReason = 256
	// expireEvery is how often the control plane looks for changes that have expired.
	expireEvery = time.Minute
	// expireTimeout bounds the time of one look.
	expireTimeout = 10 * time.Second
)

// Actions of the audit log.
const (
	actionAsk      = "ask"
	actionApprove  = "approve"
	actionReject   = "reject"
	actionWithdraw = "withdraw"
	actionExpire   = "expire"
)

// Approvals are the changes that wait for a second person.
type Approvals struct{ service *Service }

// Approvals returns the changes that wait for a second person.
func (s *Service) Approvals() Approvals { return Approvals{s} }

// An approvalRequest is a change of one object as etcd keeps it until a second person has decided.
type approvalRequest struct {
	adminapi.Approval
	// Person is the account that asked, or that made the token which asked; empty: not known.
	Person string `json:"person,omitempty"`
	// ByToken means that a token asked.
	ByToken bool `json:"by_token,omitempty"`
	// Within is the organization that restricts the asker's rights. It may be empty.
	Within string `json:"within,omitempty"`
	// Tenants means that the rules let admins of a tenant approve.
	Tenants bool `json:"tenants,omitempty"`
	// Base is the revision of the object that the change is of; 0: there was none.
	Base int64 `json:"base,omitempty"`
	// Object is stored when the change is approved. A key has its hash.
	Object json.RawMessage `json:"object"`

	object   configv1.Object
	revision int64 // of the key in etcd
}

func (w *approvalRequest) key() string { return configstore.Approvals + w.ID }

// kind returns the kind of the object. Only some kinds wait.
func (w *approvalRequest) kind() configv1.Kind { return configv1.KindOf(w.object) }

// of reports whether somebody has asked for the change, also with a token that they made.
func (w *approvalRequest) of(p authz.Principal) bool {
	return p.Name == w.AskedBy || p.Person() != "" && p.Person() == w.Person
}

// taken is done in the transaction that ends the wait, which only one of several makes.
func (w *approvalRequest) taken() configstore.Also {
	return configstore.Also{If: []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(w.key()), "=", w.revision)},
		Now: []clientv3.Op{clientv3.OpDelete(w.key())}}
}

// entry returns what the audit log says of the change.
func (w *approvalRequest) entry(ctx context.Context, action, what string) adminapi.AuditEntry {
	p, _ := authz.PrincipalOf(ctx)
	return adminapi.AuditEntry{Actor: p.Name, Role: p.Role, Address: p.Address, Action: action, Kind: w.Kind,
		Name: w.Name, Diff: what, RequestID: authz.RequestIDOf(ctx)}
}

// sign makes the entries of a plan those of an approval. People of a tenant do not see who asked.
func (w *approvalRequest) sign(entries []adminapi.AuditEntry) {
	for i := range entries {
		for k := range entries[i].Tenants {
			if t := &entries[i].Tenants[k]; !t.Partial {
				t.Partial, t.Diff = true, entries[i].Diff
			}
		}
		entries[i].Action = actionApprove
		entries[i].Diff = w.says() + "\n" + entries[i].Diff
	}
}

func (w *approvalRequest) says() string { return fmt.Sprintf("%s, asked by %s", w.ID, w.AskedBy) }

// all returns all changes that wait, the oldest first, and the revision at which there was the last new one. What
// something else has written is left out.
func (a Approvals) all(ctx context.Context) (all []*approvalRequest, version int64, err error) {
	r, err := a.service.options.Store.ReadBeside(ctx, configstore.Approvals, clientv3.WithPrefix())
	if err != nil {
		return nil, 0, fmt.Errorf("read the changes that wait: %w", err)
	}
	for _, kv := range r.Kvs {
		if string(kv.Key) == configstore.ApprovalsVersion {
			version = kv.ModRevision
			continue
		}
		w, err := readApprovalRequest(kv)
		if err != nil {
			a.service.options.Log.Error("a change that waits for approval cannot be read", zap.ByteString("key", kv.Key),
				zap.Error(err))
			continue
		}
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b *approvalRequest) int { return strings.Compare(a.ID, b.ID) })
	return all, version, nil
}

func readApprovalRequest(kv *mvccpb.KeyValue) (*approvalRequest, error) {
	w := &approvalRequest{revision: kv.ModRevision}
	if err := json.Unmarshal(kv.Value, w); err != nil {
		return nil, err
	}
	kind, ok := configv1.FindKind(w.Kind)
	if !ok || !slices.Contains(kindsThatWait(), kind.Name) || w.AskedAt == nil || w.ExpiresAt == nil ||
		string(kv.Key) != w.key() {
		return nil, errors.New("it is not of this version")
	}
	var err error
	w.object, err = kind.Unmarshal(w.Object)
	if err == nil && w.object.GetName() != w.Name {
		err = errors.New("its object has another name")
	}
	return w, err
}

// one returns a change that waits.
func (a Approvals) one(ctx context.Context, id string) (*approvalRequest, error) {
	gone := fmt.Errorf("the change %q does not wait: it was decided or withdrawn, it has expired, or there was none: %w",
		id, configstore.ErrNotFound)
	r, err := a.service.options.Store.ReadBeside(ctx, configstore.Approvals+id)
	if err != nil {
		return nil, fmt.Errorf("read a change that waits: %w", err)
	}
	if len(r.Kvs) == 0 || configstore.Approvals+id == configstore.ApprovalsVersion {
		return nil, gone
	}
	return readApprovalRequest(r.Kvs[0])
}

// beside returns the writes beside a plan, with their audit entries: the plan's change begins to wait, or the
// change that it approves stops waiting.
func (a Approvals) beside(ctx context.Context, c change, p *Plan) (also configstore.Also,
	entries []adminapi.AuditEntry, err error) {
	if c.approves != nil {
		return c.approves.taken(), nil, nil
	}
	if len(p.held)+len(p.holders) == 0 {
		return also, nil, nil
	}
	all, version, err := a.all(ctx)
	if err != nil {
		return also, nil, err
	}
	all = slices.DeleteFunc(all, func(w *approvalRequest) bool {
		if !p.ofHolders(w) {
			return false
		}
		taken := w.taken()
		also.If, also.With = append(also.If, taken.If...), append(also.With, taken.Now...)
		entries = append(entries, w.entry(ctx, actionWithdraw, w.says()+", whose account is deleted or has a new holder"))
		return true
	})
	room := newRoom(all, p.caller)
	for _, h := range p.held {
		w, err := p.asked(h)
		if err != nil {
			return also, nil, err
		}
		if before := earlier(all, w); before != nil {
			if before.asks(w) {
				*h.shown = before.Approval
				continue
			}
			taken := before.taken()
			also.If, also.With = append(also.If, taken.If...), append(also.With, taken.Now...)
			entries = append(entries, before.entry(ctx, actionWithdraw, before.says()+", replaced by "+w.ID))
			room.leave()
		}
		if err := room.enter(); err != nil {
			return also, nil, err
		}
		value, err := json.Marshal(w)
		if err != nil {
			return also, nil, err
		}
		also.With = append(also.With, clientv3.OpPut(w.key(), string(value)))
		entries = append(entries, w.entry(ctx, actionAsk, w.ID+"\n"+w.Reason+"\n"+h.diff))
		*h.shown = w.Approval
	}
	if len(entries) > 0 {
		also.If = append(also.If, clientv3.Compare(clientv3.ModRevision(configstore.ApprovalsVersion), "=", version))
		also.With = append(also.With, clientv3.OpPut(configstore.ApprovalsVersion, ""))
	}
	return also, entries, nil
}

// asked returns what begins to wait.
func (p *Plan) asked(h held) (*approvalRequest, error) {
	document, err := configv1.Marshal(h.Object)
	if err != nil {
		return nil, err
	}
	if len(document) > maxWaitingBytes {
		return nil, openai.CodeObjectTooLarge.New(
			"%s %s waits for approval (%s), for which it may have at most %d bytes. It has %d.", h.Kind.Name, h.Name,
			strings.Join(h.rules(), ", "), maxWaitingBytes, len(document))
	}
	now := time.Now().UTC().Truncate(time.Second)
	w := &approvalRequest{Person: p.caller.Person(), ByToken: p.caller.Role == authz.RoleToken,
		Within: p.caller.Tenant.Organization, Tenants: true, Base: h.base, Object: document, object: h.Object}
	expires := now.Add(h.reasons[0].Rule.Wait())
	for _, r := range h.reasons {
		w.Tenants = w.Tenants && r.Rule.GetApprovers() == configv1.Approvers_TENANT_ADMINS
		if at := now.Add(r.Rule.Wait()); at.Before(expires) {
			expires = at
		}
	}
	w.Approval = *h.shown
	w.ID, w.AskedBy, w.AskedAt, w.ExpiresAt = id.New("apr"), p.caller.Name, &now, &expires
	return w, nil
}

// earlier returns the change of the same object that the same asker has asked for before.
func earlier(all []*approvalRequest, w *approvalRequest) *approvalRequest {
	i := slices.IndexFunc(all, func(o *approvalRequest) bool {
		return o.AskedBy == w.AskedBy && o.Kind == w.Kind && o.Name == w.Name
	})
	if i < 0 {
		return nil
	}
	return all[i]
}

// asks reports whether a change is the same as another, apart from the time.
func (w *approvalRequest) asks(o *approvalRequest) bool {
	if w.Base != o.Base || !slices.Equal(w.Rules, o.Rules) || !w.ExpiresAt.After(time.Now()) {
		return false
	}
	if w.Base != 0 {
		return bytes.Equal(w.Object, o.Object)
	}
	a, b := proto.Clone(w.object).(configv1.Object), proto.Clone(o.object).(configv1.Object)
	for _, x := range []configv1.Object{a, b} {
		if fd := x.ProtoReflect().Descriptor().Fields().ByName(createdAt); fd != nil {
			x.ProtoReflect().Clear(fd)
		}
	}
	return proto.Equal(a, b)
}

// room is how many more changes an asker may have waiting.
type room struct{ all, own, within int }

func newRoom(all []*approvalRequest, p authz.Principal) *room {
	r := &room{maxWaiting - len(all), maxAsked, maxAsked}
	for _, w := range all {
		if w.AskedBy == p.Name {
			r.own--
		}
		if w.Within == p.Tenant.Organization && w.Within != "" {
			r.within--
		}
	}
	return r
}

func (r *room) leave() { r.all, r.own, r.within = r.all+1, r.own+1, r.within+1 }

func (r *room) enter() error {
	r.all, r.own, r.within = r.all-1, r.own-1, r.within-1
	if r.all < 0 || r.own < 0 || r.within < 0 {
		return openai.CodeInsufficientPermissions.New("Too many changes wait for approval. Have them decided, or withdraw some.")
	}
	return nil
}

// Expire ends changes that have waited too long, until its context ends. Each control plane may run it.
func (a Approvals) Expire(ctx context.Context) error {
	return timing.Every(ctx, expireEvery, func() {
		if err := a.expire(ctx, time.Now()); err != nil && ctx.Err() == nil {
			a.service.options.Log.Warn("changes that have expired still wait for approval", zap.Error(err))
		}
	})
}

// expire ends the changes that have expired at a time.
func (a Approvals) expire(ctx context.Context, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, expireTimeout)
	defer cancel()
	all, _, err := a.all(ctx)
	if err != nil {
		return err
	}
	for _, w := range all {
		if w.ExpiresAt.After(now) {
			continue
		}
		e := w.entry(ctx, actionExpire, w.says())
		e.Actor = "control plane"
		if err := a.end(ctx, w, e); err != nil && !errors.Is(err, configstore.ErrConflict) { // somebody else was faster
			return err
		}
	}
	return nil
}

// end has a change wait no more, without making it. The error is ErrConflict if somebody else was faster.
func (a Approvals) end(ctx context.Context, w *approvalRequest, e adminapi.AuditEntry) error {
	log, store := a.service.options.Audit, a.service.options.Store
	return log.Enter(ctx, []adminapi.AuditEntry{e}, func(ctx context.Context, also configstore.Also) error {
		_, err := store.Beside(ctx, also, w.taken())
		return err
	})
}
