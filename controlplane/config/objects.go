package config

import (
	"context"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/authz"
)

// Create stores an object that is not there yet. Keys and tokens of administration have methods of their own.
func (s *Service) Create(ctx context.Context, object configv1.Object, dryRun bool) (*Plan, error) {
	return s.create(ctx, object, dryRun, func(*Plan) {})
}

// AsCreated returns an object as its creation would store it, with sealed secrets, if the caller could create it. It
// stores nothing.
func (s *Service) AsCreated(ctx context.Context, object configv1.Object) (stored configv1.Object, err error) {
	_, err = s.create(ctx, object, true, func(p *Plan) {
		if e := p.Entry(configv1.KindOf(object), object.GetName()); e != nil {
			stored = e.Object
		}
	})
	return stored, err
}

func (s *Service) create(ctx context.Context, object configv1.Object, dryRun bool, planned func(*Plan)) (*Plan,
	error) {
	of := Ref{configv1.KindOf(object), object.GetName()}
	return s.write(ctx, change{refs: []Ref{of}, dryRun: dryRun}, func(p *Plan) error {
		if !p.caller.Sees(object) {
			return authz.NotForTenant(p.caller.Tenant)
		}
		if p.before.Find(of.Kind, of.Name) != nil {
			return openai.CodeAlreadyExists.On("name", "%s %s already exists. Replace it with PUT, or choose another name.",
				of.Kind.Name, of.Name)
		}
		err := p.put(object)
		planned(p)
		return err
	})
}

// Put stores an object, whether it is there or not.
func (s *Service) Put(ctx context.Context, object configv1.Object, dryRun bool, may Condition) (*Plan, error) {
	of := Ref{configv1.KindOf(object), object.GetName()}
	c := change{refs: []Ref{of}, dryRun: dryRun}
	if k, ok := object.(*configv1.Key); ok {
		c.reads = tenantsOf(k)
	}
	return s.write(ctx, c, func(p *Plan) error {
		if err := may(p.visible(of)); err != nil {
			return err
		}
		return p.put(object)
	})
}

// Delete deletes an object, which may be one that cannot be read.
func (s *Service) Delete(ctx context.Context, of Ref, dryRun bool, may Condition) (*Plan, error) {
	return s.write(ctx, change{refs: []Ref{of}, dryRun: dryRun}, func(p *Plan) error {
		if err := may(p.visible(of)); err != nil {
			return err
		}
		if err := p.remove(of); err != nil {
			return err
		}
		return s.checkEmpty(ctx, of)
	})
}
