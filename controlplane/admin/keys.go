package admin

import (
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/redact"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/httpapi"
	"github.com/modelgate/modelgate/internal/id"
	"github.com/modelgate/modelgate/internal/secret"
)

// maxGrace is how long a key that was rotated may stay good.
const maxGrace = 30 * 24 * time.Hour

// createKey makes a key and stores its hash. Nothing but the answer has the key itself.
func (s *server) createKey(w http.ResponseWriter, r *http.Request) error {
	object, err := s.body(w, r, configv1.KeyKind()) // a KeyRequest has members of a Key
	if err != nil {
		return err
	}
	asked := object.(*configv1.Key)
	if err := chosen(asked, time.Now()); err != nil {
		return err
	}
	asked.Name = id.New("key")
	caller, _ := authz.PrincipalOf(r.Context())
	asked.Owner = caller.Owner()
	key := auth.Generate()
	s.setKey(asked, key)
	missing, err := boolOf(r, "create_missing")
	if err != nil {
		return err
	}
	c := change{refs: []ref{{configv1.KeyKind(), asked.Name}}, reads: tenantsOf(asked)}
	if missing {
		if err := authz.Needs(r.Context(), authz.ConfigWrite); err != nil {
			return err
		}
		c.refs = append(c.refs, c.reads...)
	}
	if asked.Owner != "" {
		c.reads = append(c.reads, ref{configv1.KindOf((*configv1.Account)(nil)), asked.Owner})
	}
	return s.make(w, r, c, asked, adminapi.NewKey{ID: asked.Name, Key: key.Reveal()})
}

func (s *server) setKey(o *configv1.Key, key secret.Value) {
	hash := s.config.Hasher.Hash(key.Reveal())
	o.Hash, o.Hint = hash[:], auth.Hint(key)
}

// chosen refuses what is not for the caller to choose, and what could never work.
func chosen(k *configv1.Key, now time.Time) error {
	if err := onlyChosen(k, "display_name", "organization", "project", "models", "expires_at", "endpoints", "addresses",
		"limits", "budgets", "metadata", "bodies"); err != nil {
		return err
	}
	return named(k.GetDisplayName(), k.GetExpiresAt(), now)
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

func named(displayName string, expires *timestamppb.Timestamp, now time.Time) error {
	switch {
	case displayName == "":
		return openai.CodeMissing.On("display_name", "The member display_name is required.")
	case expires != nil && !expires.AsTime().After(now):
		return openai.CodeInvalidValue.On("expires_at",
			"The member expires_at must be in the future.")
	}
	return nil
}

// rotateKey puts another key in the place of one. The old one stays good for the time of grace.
func (s *server) rotateKey(w http.ResponseWriter, r *http.Request) error {
	var asked adminapi.RotateRequest
	if err := decodeBody(w, r, &asked); err != nil {
		return err
	}
	if asked.Grace < 0 || asked.Grace > int64(maxGrace/time.Second) {
		return openai.CodeInvalidValue.On("grace_seconds",
			"The parameter grace_seconds must be between 0 and %d.", int64(maxGrace/time.Second))
	}
	dryRun, err := boolOf(r, "dry_run")
	if err != nil {
		return err
	}
	of := ref{configv1.KeyKind(), r.PathValue("id")}
	key := auth.Generate()
	done, err := s.write(r.Context(), change{refs: []ref{of}, dryRun: dryRun, action: "rotate"}, func(p *plan) error {
		if err := precondition(r, p.visible(of)); err != nil {
			return err
		}
		stored, err := p.existing(of)
		if err != nil {
			return err
		}
		rotated := proto.CloneOf(stored.(*configv1.Key))
		rotated.Retired = nil
		if asked.Grace > 0 {
			rotated.Retired = &configv1.RetiredKey{
				Hash: rotated.GetHash(), Hint: rotated.GetHint(),
				ExpiresAt: timestamppb.New(time.Now().Add(time.Duration(asked.Grace) * time.Second).Truncate(time.Second)),
			}
		}
		s.setKey(rotated, key)
		return p.store(of.kind, rotated, stored, redact.Object(rotated))
	})
	if err != nil {
		return err
	}
	if dryRun {
		return writeChanges(w, done)
	}
	if err := s.await(w, r, done); err != nil {
		return err
	}
	w.Header().Set("ETag", etag(done.revision))
	return httpapi.WriteJSON(w, http.StatusOK, adminapi.NewKey{ID: of.name, Key: key.Reveal()})
}

// decodeBody reads a body with the members of v and no others. An absent body is an empty object.
func decodeBody(w http.ResponseWriter, r *http.Request, v any) error {
	body, err := httpapi.ReadBody(w, r, maxBody)
	if err != nil || len(body) == 0 {
		return err
	}
	if err := json.Unmarshal(body, v, json.RejectUnknownMembers(true)); err != nil {
		return openai.CodeInvalidJSON.New(
			"The body of your request is not a valid JSON object for this operation: %v.", err)
	}
	return nil
}

// make stores what the gateway has named and given a secret, and answers with that.
func (s *server) make(w http.ResponseWriter, r *http.Request, c change, o configv1.Object, made any) (err error) {
	kind := configv1.KindOf(o)
	inheritTime(o, nil)
	if c.dryRun, err = boolOf(r, "dry_run"); err != nil {
		return err
	}
	done, err := s.write(r.Context(), c, func(p *plan) error {
		if errs := configv1.Validate(o, s.config.Vendors); len(errs) > 0 {
			return errs
		}
		if err := p.mayWrite(o); err != nil {
			return err
		}
		if k, ok := o.(*configv1.Key); ok && len(c.refs) > 1 { // they are to be made where they are missing
			if err := p.createTenants(k); err != nil {
				return err
			}
		}
		return p.store(kind, o, nil, redact.Object(o))
	})
	if err != nil {
		return err
	}
	if c.dryRun {
		return writeChanges(w, done)
	}
	if key, ok := made.(adminapi.NewKey); ok {
		if key.Approval = done.waits(ref{kind, o.GetName()}); key.Approval != nil {
			key.Pending = true
			return httpapi.WriteJSON(w, http.StatusAccepted, key)
		}
	}
	if err := s.await(w, r, done); err != nil {
		return err
	}
	w.Header().Set("Location", locationOf(ref{kind, o.GetName()}))
	w.Header().Set("ETag", etag(done.revision))
	return httpapi.WriteJSON(w, http.StatusCreated, made)
}
