package configv1

import (
	"encoding/base64"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Redacted replaces a sealed credential in answers. If it is applied again, it means the stored credential.
const Redacted = "[redacted]"

const maxTimeout = 24 * time.Hour

// Vendors finds the vendors of providers. For an unknown name it may return a Vendor with the known ones.
type Vendors func(name string) (Vendor, bool)

// A Vendor has the properties of a vendor that validation needs.
type Vendor struct {
	// Endpoint returns the reason why a provider's place is unknown, or nil.
	Endpoint func(*Provider) error
	// Exchanges means that credentials are exchanged for others before they are sent. They may be documents of many
	// lines.
	Exchanges bool
	// Operations are the names that a provider's operations may have.
	Operations []string
	// Known are the names of all vendors, if the name is unknown. The error suggests one of them.
	Known []string
}

// Validate returns the errors in an object that an operator has written. It does not read files that the object names.
func Validate(o Object, vendors Vendors) Errors {
	kind := KindOf(o)
	if kind.Name == "" {
		return Errors{{Object: Label(o), Message: "cannot be stored; only " + KindNames() + " can"}}
	}
	v := &validator{object: Label(o), kind: kind.Name, vendors: vendors}
	v.message("", o.ProtoReflect())
	return v.errs
}

// Validate validates the document's object, and adds its source to every error.
func (d Document) Validate(vendors Vendors) Errors {
	errs := Validate(d.Object, vendors)
	for i := range errs {
		errs[i].Source = d.Place(errs[i].Field)
	}
	return errs
}

// ValidateStored returns the errors in an object in its stored form: a key must have its hash, and no credential or
// password may be in clear text.
func ValidateStored(o Object, vendors Vendors) Errors {
	v := &validator{object: Label(o), errs: Validate(o, vendors)}
	v.storedSecrets(o)
	for _, c := range Credentials(o) {
		switch source := c.Credential.GetSource().(type) {
		case *Credential_Value:
			v.fail(c.Field+".value", "must be sealed before it is stored")
		case *Credential_Sealed:
			if _, err := base64.StdEncoding.DecodeString(source.Sealed); err != nil {
				v.fail(c.Field+".sealed", "must be base64")
			}
		}
	}
	return v.errs
}

// A CredentialField is a credential of an object, with the name of its field.
type CredentialField struct {
	Field      string
	Credential *Credential
}

// Credentials returns the credentials of an object, not copied.
func Credentials(o Object) []CredentialField {
	var found []CredentialField
	m := o.ProtoReflect()
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if fd.Message() == nil || fd.IsMap() || fd.IsList() || !m.Has(fd) {
			continue
		}
		if c, ok := m.Get(fd).Message().Interface().(*Credential); ok {
			found = append(found, CredentialField{Field: string(fd.Name()), Credential: c})
		}
	}
	return found
}

// A validator collects the errors in one object.
type validator struct {
	object, kind string
	vendors      Vendors
	at           string // what the names of the fields of the message begin with: empty, or a path and a dot
	errs         Errors
}

// fail reports an error in a field of the message that is checked, or in the whole message if the field is empty.
func (v *validator) fail(field, format string, args ...any) {
	path := v.at + field
	if field == "" {
		path = strings.TrimSuffix(path, ".")
	}
	v.errs.add(v.object, path, format, args...)
}

// failed reports whether a field of the message has an error.
func (v *validator) failed(fields ...string) bool {
	return slices.ContainsFunc(v.errs, func(e FieldError) bool {
		return slices.ContainsFunc(fields, func(f string) bool {
			return e.Field == v.at+f || strings.HasPrefix(e.Field, v.at+f+".")
		})
	})
}

// isPlain reports whether s can stand in a message without quotes.
func isPlain(s string) bool {
	return s != "" && len(s) <= maxModel &&
		!strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) })
}
