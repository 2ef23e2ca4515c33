package config

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
func inherit(o, stored configv1.Object) error {
	if err := inheritHash(o, stored); err != nil {
		return err
	}
	inheritTime(o, stored)
	return inheritCredentials(o, stored)
}

// inheritHash keeps the hashes of an object, which say what it is.
func inheritHash(o, stored configv1.Object) error {
	field, given, missing := "hash", false, ""
	switch o := o.(type) {
	case *configv1.Key:
		given = len(o.GetHash())+len(o.GetRetired().GetHash()) > 0
		was, ok := stored.(*configv1.Key)
		if !ok {
			missing = "create a key with POST /admin/v1/keys or modelgate key create"
		}
		o.Hash, o.Hint, o.Owner, o.Left = was.GetHash(), was.GetHint(), was.GetOwner(), was.GetLeft()
		if o.GetRetired() != nil { // left out, it is not good any more
			o.Retired = was.GetRetired()
		}
	case *configv1.AdminToken:
		given = len(o.GetHash()) > 0
		was, ok := stored.(*configv1.AdminToken)
		if !ok {
			missing = "create a token with POST /admin/v1/admintokens"
		}
		o.Hash, o.Hint, o.Owner = was.GetHash(), was.GetHint(), was.GetOwner()
	case *configv1.Account:
		field, given = "password_hash", o.GetPasswordHash() != ""
		if was, ok := stored.(*configv1.Account); ok && o.GetPassword() == "" {
			o.PasswordHash = was.GetPasswordHash()
		}
		if o.GetPassword() == configv1.Redacted {
			return configv1.Errors{{Object: configv1.Label(o), Field: "password",
				Message: "is redacted; give the password itself, or leave it out to keep the stored one"}}
		}
	}
	switch {
	case given:
		return configv1.Errors{{Object: configv1.Label(o), Field: field, Message: "cannot be set; leave it out"}}
	case missing != "":
		return configv1.Errors{{Object: configv1.Label(o), Message: "does not exist; " + missing}}
	}
	return nil
}

// dropTime drops the given created_at. Operators may give one, so that an export is restored as it was. Others may
// not: an account with the name and the time of an earlier one would have its sessions.
func dropTime(o configv1.Object) {
	m := o.ProtoReflect()
	if fd := m.Descriptor().Fields().ByName(createdAt); fd != nil {
		m.Clear(fd)
	}
}

// inheritTime sets created_at, if the object has the field: to the stored time, or else to the given time or now.
func inheritTime(o, stored configv1.Object) {
	m := o.ProtoReflect()
	fd := m.Descriptor().Fields().ByName(createdAt)
	_, isAccount := o.(*configv1.Account)
	switch {
	case fd == nil:
	case stored != nil && stored.ProtoReflect().Has(fd):
		m.Set(fd, stored.ProtoReflect().Get(fd))
	case stored != nil && isAccount: // only a new holder changes the time
		m.Clear(fd)
	case !m.Has(fd):
		exact := time.Second
		if isAccount { // sessions tell one account from the next of its name by it
			exact = time.Microsecond
		}
		now := timestamppb.New(time.Now().Truncate(exact))
		m.Set(fd, protoreflect.ValueOfMessage(now.ProtoReflect()))
	}
}

// inheritCredentials puts the stored sealed credential in the place of a redacted one.
func inheritCredentials(o, stored configv1.Object) error {
	for _, c := range configv1.Credentials(o) {
		was := sealedIn(stored, c.Field)
		field, problem := "", ""
		switch source := c.Credential.GetSource().(type) {
		case *configv1.Credential_Sealed:
			field = c.Field + ".sealed"
			switch {
			case source.Sealed != configv1.Redacted:
				problem = "cannot be written; give the credential as value, env, file, vault, secret_manager or workload_identity"
			case was == "":
				problem = "is redacted, but no credential is stored; give it as value, env, file, vault, secret_manager or workload_identity"
			}
			source.Sealed = was
		case *configv1.Credential_Value:
			field = c.Field + ".value"
			if source.Value == configv1.Redacted {
				problem = "is redacted; give the credential itself"
			}
		}
		if problem != "" {
			return configv1.Errors{{Object: configv1.Label(o), Field: field, Message: problem}}
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

// opened returns a copy of an object with its sealed credentials in clear, as far as they can be opened, so that it
// can be validated whole: a certificate with its key.
func (s *Service) opened(o configv1.Object) configv1.Object {
	inClear := proto.Clone(o).(configv1.Object)
	for _, c := range configv1.Credentials(inClear) {
		if v, ok := s.open(o, c.Field, c.Credential.GetSealed()); ok {
			c.Credential.Source = &configv1.Credential_Value{Value: v.Reveal()}
		}
	}
	return inClear
}

// reuse puts the stored sealed credential in the place of one in clear that is the same. Sealing it again would look
// like a change.
func (s *Service) reuse(o, stored configv1.Object) {
	for _, c := range configv1.Credentials(o) {
		was := sealedIn(stored, c.Field)
		source, inClear := c.Credential.GetSource().(*configv1.Credential_Value)
		if v, ok := s.open(o, c.Field, was); ok && inClear && v.Reveal() == source.Value {
			c.Credential.Source = &configv1.Credential_Sealed{Sealed: was}
		}
	}
}

func (s *Service) open(o configv1.Object, field, sealed string) (secret.Value, bool) {
	if sealed == "" {
		return secret.Value{}, false
	}
	v, err := s.options.Sealer.Open(configv1.KindOf(o).Name, o.GetName(), field, sealed)
	return v, err == nil
}

// seal replaces every credential in clear.
func (s *Service) seal(o configv1.Object) {
	for _, c := range configv1.Credentials(o) {
		if v, ok := c.Credential.GetSource().(*configv1.Credential_Value); ok {
			sealed := s.options.Sealer.Seal(configv1.KindOf(o).Name, o.GetName(), c.Field, secret.New(v.Value))
			c.Credential.Source = &configv1.Credential_Sealed{Sealed: sealed}
		}
	}
}
