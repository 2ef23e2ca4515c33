package configv1

import (
	"encoding/base64"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Redacted replaces a sealed credential in answers. If it is applied again, it means the stored credential.
const Redacted = "[redacted]"

const (
	maxName    = 63
	maxModel   = 256
	maxText    = 256
	maxTimeout = 24 * time.Hour
	hashSize   = 32 // of HMAC-SHA-256
)

var (
	labelPattern   = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	idPattern      = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
	modelPattern   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:@+/-]*$`)
	placePattern   = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)
	versionPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	envPattern     = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

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
	if kind.validate == nil {
		return Errors{{Object: Label(o), Message: "cannot be stored; only " + KindNames() + " can"}}
	}
	v := &validator{object: Label(o), vendors: vendors}
	kind.validate(v, o)
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
	object  string
	vendors Vendors
	errs    Errors
}

func (v *validator) fail(field, format string, args ...any) {
	v.errs.add(v.object, field, format, args...)
}

func (v *validator) label(field, s string) {
	if len(s) > maxName || !labelPattern.MatchString(s) {
		v.fail(field, "must be 1 to %d lower-case letters, digits and dashes, and begin and end with a letter or digit",
			maxName)
	}
}

func (v *validator) optionalLabel(field, s string) {
	if s != "" {
		v.label(field, s)
	}
}

// place accepts a text that can be a part of a host name or path, and can end neither.
func (v *validator) place(field, s string) {
	if s != "" && (len(s) > maxName || !placePattern.MatchString(s) || strings.Contains(s, "..")) {
		v.fail(field,
			"must be at most %d lower-case letters, digits, dots and dashes, and begin and end with a letter or digit", maxName)
	}
}

func (v *validator) id(field, s string) {
	if len(s) > maxName || !idPattern.MatchString(s) {
		v.fail(field, "must be 1 to %d letters, digits, _ and -", maxName)
	}
}

func (v *validator) optionalID(field, s string) {
	if s != "" {
		v.id(field, s)
	}
}

// modelName accepts a text that clients can send and that can be in a path without escapes.
func (v *validator) modelName(field, s string) {
	if len(s) > maxModel || !modelPattern.MatchString(s) || path.Clean(s) != s {
		v.fail(field, "must be 1 to %d letters, digits and ._:@+-, in parts separated by single slashes", maxModel)
	}
}

// text accepts a short line of text.
func (v *validator) text(field, s string) {
	if len(s) > maxText || strings.ContainsFunc(s, unicode.IsControl) {
		v.fail(field, "must be at most %d bytes without control characters", maxText)
	}
}

func (v *validator) required(field, s string) {
	if s == "" {
		v.fail(field, "missing")
	}
	v.text(field, s)
}

func (v *validator) duration(field string, d *durationpb.Duration) {
	if d == nil {
		return
	}
	if d.CheckValid() != nil || d.AsDuration() <= 0 || d.AsDuration() > maxTimeout {
		v.fail(field, "must be more than 0 s and at most %d h", int(maxTimeout.Hours()))
	}
}

func (v *validator) time(field string, t *timestamppb.Timestamp) {
	if t != nil && t.CheckValid() != nil {
		v.fail(field, "must be a time between the years 1 and 9999")
	}
}

// between checks a number that may be absent (0).
func (v *validator) between(field string, n, low, high uint32) {
	if n != 0 && (n < low || n > high) {
		v.fail(field, "must be between %d and %d", low, high)
	}
}

// distinct reports the elements of a list that came before.
func (v *validator) distinct(field string, list []string) {
	for i, s := range list {
		if first := slices.Index(list, s); first < i {
			v.fail(element(field, i), "is the same as %s", element(field, first))
		}
	}
}

func element(field string, i int) string { return fmt.Sprintf("%s[%d]", field, i) }

// isPlain reports whether s can stand in a message without quotes.
func isPlain(s string) bool {
	return s != "" && len(s) <= maxModel &&
		!strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) })
}
