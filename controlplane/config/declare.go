package config

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/owned"
	"github.com/modelgate/modelgate/controlplane/redact"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/secret"
)

// Refusals say why declared objects are refused, each for itself.
type Refusals map[configstore.Ref]error

// Error returns one of them.
func (r Refusals) Error() string {
	refs := slices.SortedFunc(maps.Keys(r), func(a, b configstore.Ref) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
	})
	if len(refs) == 0 {
		return "nothing is refused"
	}
	return r[refs[0]].Error()
}

// Declare makes all declared objects as they are to be, or none if any is refused. The error is then Refusals, unless
// it is not known which of them it is. What must hold in etcd for it is in held.
func (s *Service) Declare(ctx context.Context, all []owned.Declared, held ...clientv3.Cmp) (*Plan, error) {
	c := change{many: true, declared: make(map[configstore.Ref]owned.Declared, len(all)), held: held}
	for _, d := range all {
		c.refs = append(c.refs, Ref{d.Kind, d.Name})
		c.declared[d.Ref()] = d
	}
	p, err := s.write(ctx, c, func(p *Plan) error {
		refused := Refusals{}
		for _, d := range all {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := p.declare(ctx, d); err != nil {
				refused[d.Ref()] = err
			}
		}
		if len(refused) > 0 {
			return refused
		}
		return nil
	})
	return p, c.blame(err)
}

// blame says of which declared objects an error is, if all that it has is of them.
func (c change) blame(err error) error {
	invalid, ok := errors.AsType[configv1.Errors](err)
	if !ok {
		return err
	}
	labels := make(map[string]configstore.Ref, len(c.declared))
	for ref := range c.declared {
		labels[ref.Kind+" "+ref.Name] = ref
	}
	grouped := map[configstore.Ref]configv1.Errors{}
	for _, e := range invalid {
		ref, known := labels[e.Object]
		if !known {
			continue
		}
		grouped[ref] = append(grouped[ref], e)
	}
	if len(grouped) == 0 {
		return err
	}
	refused := Refusals{}
	for ref, errs := range grouped {
		refused[ref] = errs
	}
	return refused
}

// declare plans one declared object.
func (p *Plan) declare(ctx context.Context, d owned.Declared) error {
	switch {
	case d.Object != nil && d.Secret != (secret.Value{}):
		return p.putSecret(d)
	case d.Object != nil:
		return p.put(d.Object)
	case p.before.Find(d.Kind, d.Name) == nil: // only the mark is left
		return p.owned.MayWrite(d.Ref(), false, true)
	}
	if err := p.remove(Ref{d.Kind, d.Name}); err != nil {
		return err
	}
	return p.service.checkEmpty(ctx, Ref{d.Kind, d.Name})
}

// putSecret plans to store a key or a token whose secret is known.
func (p *Plan) putSecret(d owned.Declared) error {
	var stored configv1.Object
	if e := p.before.Find(d.Kind, d.Name); e != nil {
		stored = e.Object
	}
	object := proto.Clone(d.Object).(configv1.Object)
	inheritTime(object, stored)
	hash := p.service.options.Hasher.Hash(d.Secret.Reveal())
	switch o := object.(type) {
	case *configv1.Key:
		was, _ := stored.(*configv1.Key)
		o.Hash, o.Hint, o.Retired = hash[:], auth.Hint(d.Secret), was.GetRetired()
		o.Owner, o.Left = was.GetOwner(), was.GetLeft()
		if was != nil && string(was.GetHash()) != string(o.GetHash()) {
			o.Retired = nil
			if d.Grace > 0 {
				o.Retired = &configv1.RetiredKey{Hash: was.GetHash(), Hint: was.GetHint(),
					ExpiresAt: timestamppb.New(time.Now().Add(d.Grace).Truncate(time.Second))}
			}
		}
	case *configv1.AdminToken:
		was, _ := stored.(*configv1.AdminToken)
		o.Hash, o.Hint, o.Owner = hash[:], auth.Hint(d.Secret), was.GetOwner()
	default:
		return openai.CodeInvalidObject.New("%s has no secret of its own.", configv1.Label(object))
	}
	if errs := configv1.Validate(object, p.service.options.Vendors); len(errs) > 0 {
		return errs
	}
	if err := errors.Join(p.permission().mayWrite(object, stored), p.permission().mayReach(object, stored)); err != nil {
		return err
	}
	return p.store(d.Kind, object, stored, redact.Object(object))
}

// Held returns why the change of an object waits for approval, or "".
func (p *Plan) Held(ref configstore.Ref) string {
	for _, h := range p.held {
		if h.Kind.Name == ref.Kind && h.Name == ref.Name {
			return h.reason()
		}
	}
	return ""
}

// RevisionOf returns at which revision an object is as the plan says.
func (p *Plan) RevisionOf(of Ref) int64 {
	for _, c := range p.Changes {
		if c.Kind == of.Kind.Name && c.Name == of.Name && c.Action != adminapi.Unchanged {
			return p.Revision
		}
	}
	if e := p.before.Find(of.Kind, of.Name); e != nil {
		return e.Revision
	}
	return p.Revision
}
