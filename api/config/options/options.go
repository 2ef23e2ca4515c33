// Package options defines and reads the options by which the messages of the configuration state facts about
// themselves. See options.proto.
package options

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Secrecy says what a field has to do with who sees a credential.
type Secrecy string

// The secrecies, as the threat model writes them.
const (
	Public     Secrecy = "no"         // nothing
	Credential Secrecy = "credential" // it is one, or says where one is found
	Decides    Secrecy = "decides"    // it decides who sees the credential, or on whose behalf somebody is believed
	Rights     Secrecy = "rights"     // it gives rights of administration
)

// KindOf returns what a message states of its kind, or nil if it is none.
func KindOf(m protoreflect.MessageDescriptor) *Kind {
	return proto.GetExtension(m.Options(), E_Kind).(*Kind)
}

// Of returns what a field states.
func Of(fd protoreflect.FieldDescriptor) *Field {
	return proto.GetExtension(fd.Options(), E_Field).(*Field)
}

// SecrecyOf returns the secrecy of a field, which the field states or its message does. A field decides if neither
// states it, and stated is false.
func SecrecyOf(fd protoreflect.FieldDescriptor) (is Secrecy, stated bool) {
	if is, _ = Of(fd).SecrecyAndReason(); is == "" {
		is, _ = OfFields(fd.ContainingMessage()).SecrecyAndReason()
	}
	if is == "" {
		return Decides, false
	}
	return is, true
}

// OfFields returns what a message states of its fields.
func OfFields(m protoreflect.MessageDescriptor) *Field {
	return proto.GetExtension(m.Options(), E_Fields).(*Field)
}

// SecrecyAndReason returns the secrecy that is stated, or "", and why it is so.
func (x *Field) SecrecyAndReason() (is Secrecy, why string) {
	switch s := x.GetSecrecy().(type) {
	case *Field_Public:
		return Public, s.Public
	case *Field_Credential:
		return Credential, s.Credential
	case *Field_Decides:
		return Decides, s.Decides
	case *Field_Rights:
		return Rights, s.Rights
	}
	return "", ""
}

// IsRequired reports whether no object is valid without the field.
func (x *Field) IsRequired() bool {
	return x.GetRequired() || x.GetMissing() != "" || x.GetItems().GetLeast() > 0
}
