package admin

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/secret"
)

// createdAt is the field of an object that says when it was first stored.
const createdAt protoreflect.Name = "created_at"

// inherit completes an object that an operator wrote with what only the gateway may write: it is taken from the stored
// object, which may be nil.
func (s *server) inherit(o, stored configv1.Object) error {
	if err := inheritKey(o, stored); err != nil {
		return err
	}
	inheritTime(o, stored)
	return s.inheritCredentials(o, stored)
}

// inheritKey keeps the hash of a key, which says what the key is.
func inheritKey(o, stored configv1.Object) error {
	key, ok := o.(*configv1.Key)
	if !ok {
		return nil
	}
	if len(key.GetHash()) > 0 {
		return configv1.Errors{{Object: configv1.Label(o), Field: "hash", Message: "cannot be set; leave it out"}}
	}
	was, ok := stored.(*configv1.Key)
	if !ok {
		return configv1.Errors{{Object: configv1.Label(o), Message: "does not exist; make a key with POST /admin/v1/keys or modelgate key create"}}
	}
	key.Hash, key.Hint = was.GetHash(), was.GetHint()
	return nil
}

// inheritTime sets created_at where the object has such a field: to what is stored, or else to what is given or now.
func inheritTime(o, stored configv1.Object) {
	m := o.ProtoReflect()
	fd := m.Descriptor().Fields().ByName(createdAt)
	switch {
	case fd == nil:
	case stored != nil && stored.ProtoReflect().Has(fd):
		m.Set(fd, stored.ProtoReflect().Get(fd))
	case !m.Has(fd):
		now := timestamppb.New(time.Now().Truncate(time.Second))
		m.Set(fd, protoreflect.ValueOfMessage(now.ProtoReflect()))
	}
}

// inheritCredentials puts the stored sealed credential in the place of a redacted one, and of one in clear that is the
// same: sealing it again would look like a change.
func (s *server) inheritCredentials(o, stored configv1.Object) error {
	for _, c := range configv1.Credentials(o) {
		was := sealedIn(stored, c.Field)
		switch source := c.Credential.GetSource().(type) {
		case *configv1.Credential_Sealed:
			if source.Sealed != configv1.Redacted {
				return configv1.Errors{{Object: configv1.Label(o), Field: c.Field + ".sealed", Message: "cannot be written; give the credential as value, env or file"}}
			}
			if was == "" {
				return configv1.Errors{{Object: configv1.Label(o), Field: c.Field + ".sealed", Message: "is redacted, and no credential is stored that it could stand for; give it as value, env or file"}}
			}
			c.Credential.Source = &configv1.Credential_Sealed{Sealed: was}
		case *configv1.Credential_Value:
			if source.Value == configv1.Redacted {
				return configv1.Errors{{Object: configv1.Label(o), Field: c.Field + ".value", Message: "is redacted; give the credential itself"}}
			}
			if s.opensTo(o, c.Field, was, source.Value) {
				c.Credential.Source = &configv1.Credential_Sealed{Sealed: was}
			}
		}
	}
	return nil
}

func sealedIn(o configv1.Object, field string) string {
	if o == nil {
		return ""
	}
	for _, c := range configv1.Credentials(o) {
		if c.Field == field {
			return c.Credential.GetSealed()
		}
	}
	return ""
}

func (s *server) opensTo(o configv1.Object, field, sealed, value string) bool {
	if sealed == "" {
		return false
	}
	v, err := s.config.Sealer.Open(configv1.KindOf(o).Name, o.GetName(), field, sealed)
	return err == nil && v.Reveal() == value
}

// seal replaces every credential in clear.
func (s *server) seal(o configv1.Object) {
	for _, c := range configv1.Credentials(o) {
		if v, ok := c.Credential.GetSource().(*configv1.Credential_Value); ok {
			sealed := s.config.Sealer.Seal(configv1.KindOf(o).Name, o.GetName(), c.Field, secret.New(v.Value))
			c.Credential.Source = &configv1.Credential_Sealed{Sealed: sealed}
		}
	}
}

// redacted returns a copy of an object that can be shown.
func redacted(o configv1.Object) configv1.Object {
	shown := proto.Clone(o).(configv1.Object)
	for _, c := range configv1.Credentials(shown) {
		switch c.Credential.GetSource().(type) {
		case *configv1.Credential_Sealed:
			c.Credential.Source = &configv1.Credential_Sealed{Sealed: configv1.Redacted}
		case *configv1.Credential_Value:
			c.Credential.Source = &configv1.Credential_Value{Value: configv1.Redacted}
		}
	}
	if key, ok := shown.(*configv1.Key); ok {
		key.Hash = nil
	}
	return shown
}
