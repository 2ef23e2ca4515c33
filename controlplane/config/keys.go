package config

import (
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/redact"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/id"
	"github.com/modelgate/modelgate/internal/secret"
)

// maxGrace is how long a key that was rotated may stay good.
const maxGrace = 30 * 24 * time.Hour

// CreateKey makes a key and stores its hash. Nothing but the answer has the key itself. If missing is true, it also
// makes the organization and the project of the key.
func (s *Service) CreateKey(ctx context.Context, asked *configv1.Key, missing, dryRun bool) (*Plan, secret.Value,
	error) {
	if err := chosen(asked, time.Now()); err != nil {
		return nil, secret.Value{}, err
	}
	asked.Name = id.New("key")
	caller, _ := authz.PrincipalOf(ctx)
	asked.Owner = caller.Owner()
	key := auth.Generate()
	s.setKey(asked, key)
	c := change{refs: []Ref{{configv1.KeyKind(), asked.Name}}, reads: tenantsOf(asked), dryRun: dryRun}
	if missing {
		if err := authz.Needs(ctx, authz.ConfigWrite); err != nil {
			return nil, secret.Value{}, err
		}
		c.refs = append(c.refs, c.reads...)
	}
	if asked.Owner != "" {
		c.reads = append(c.reads, Ref{configv1.KindOf((*configv1.Account)(nil)), asked.Owner})
	}
	done, err := s.make(ctx, c, asked)
	return done, key, err
}

func (s *Service) setKey(o *configv1.Key, key secret.Value) {
	hash := s.options.Hasher.Hash(key.Reveal())
	o.Hash, o.Hint = hash[:], auth.Hint(key)
}

// chosen refuses what is not for the caller to choose, and what could never work.
func chosen(k *configv1.Key, now time.Time) error {
	if err := onlyChosen(k, "display_name", "organization", "project", "models", "expires_at", "endpoints", "addresses",
		"limits", "budgets", "metadata", "bodies"); err != nil {
		return err
	}
	return nameAndExpiry(k.GetDisplayName(), k.GetExpiresAt(), now)
}

// onlyChosen refuses an object with other fields than those.
func onlyChosen(o configv1.Object, fields ...protoreflect.Name) (err error) {
	o.ProtoReflect().Range(func(fd protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if !slices.Contains(fields, fd.Name()) {
			err = openai.CodeInvalidValue.On(string(fd.Name()), "The member %s cannot be set. Leave it out.",
				fd.Name())
		}
		return err == nil
	})
	return err
}

func nameAndExpiry(displayName string, expires *timestamppb.Timestamp, now time.Time) error {
	switch {
	case displayName == "":
		return openai.CodeMissing.On("display_name", "The member display_name is required.")
	case expires != nil && !expires.AsTime().After(now):
		return openai.CodeInvalidValue.On("expires_at",
			"The member expires_at must be in the future.")
	}
	return nil
}

// RotateKey puts another key in the place of one. The old one stays good for grace seconds.
func (s *Service) RotateKey(ctx context.Context, name string, grace int64, dryRun bool,
	may Condition) (*Plan, secret.Value, error) {
	if grace < 0 || grace > int64(maxGrace/time.Second) {
		return nil, secret.Value{}, openai.CodeInvalidValue.On("grace_seconds",
			"The parameter grace_seconds must be between 0 and %d.", int64(maxGrace/time.Second))
	}
	of := Ref{configv1.KeyKind(), name}
	key := auth.Generate()
	done, err := s.write(ctx, change{refs: []Ref{of}, dryRun: dryRun, action: "rotate"}, func(p *Plan) error {
		if err := may(p.visible(of)); err != nil {
			return err
		}
		stored, err := p.existing(of)
		if err != nil {
			return err
		}
		rotated := proto.CloneOf(stored.(*configv1.Key))
		rotated.Retired = nil
		if grace > 0 {
			rotated.Retired = &configv1.RetiredKey{
				Hash: rotated.GetHash(), Hint: rotated.GetHint(),
				ExpiresAt: timestamppb.New(time.Now().Add(time.Duration(grace) * time.Second).Truncate(time.Second)),
			}
		}
		s.setKey(rotated, key)
		return p.store(of.Kind, rotated, stored, redact.Object(rotated))
	})
	return done, key, err
}

// make stores what the gateway has named and given a secret.
func (s *Service) make(ctx context.Context, c change, o configv1.Object) (*Plan, error) {
	inheritTime(o, nil)
	return s.write(ctx, c, func(p *Plan) error {
		if errs := configv1.Validate(o, s.options.Vendors); len(errs) > 0 {
			return errs
		}
		if err := p.permission().mayWrite(o); err != nil {
			return err
		}
		if k, ok := o.(*configv1.Key); ok && len(c.refs) > 1 { // they are to be made if they are missing
			if err := p.createTenants(k); err != nil {
				return err
			}
		}
		return p.store(configv1.KindOf(o), o, nil, redact.Object(o))
	})
}

// CreateToken makes a token of administration and stores its hash. Nothing but the answer has the token itself.
func (s *Service) CreateToken(ctx context.Context, asked *configv1.AdminToken, dryRun bool) (*Plan, secret.Value,
	error) {
	if err := onlyChosen(asked, "display_name", "scopes", "expires_at", "identity_provider", "organization",
		"project"); err != nil {
		return nil, secret.Value{}, err
	}
	if err := nameAndExpiry(asked.GetDisplayName(), asked.GetExpiresAt(), time.Now()); err != nil {
		return nil, secret.Value{}, err
	}
	caller, _ := authz.PrincipalOf(ctx)
	asked.Name, asked.Owner = id.New(authz.TokenIDPrefix), caller.Person()
	token := authz.NewToken(asked.Name)
	hash := s.options.Hasher.Hash(token.Reveal())
	asked.Hash, asked.Hint = hash[:], auth.Hint(token)
	done, err := s.make(ctx, change{refs: []Ref{{configv1.KindOf(asked), asked.Name}}, dryRun: dryRun}, asked)
	return done, token, err
}
