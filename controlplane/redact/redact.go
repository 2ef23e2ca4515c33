// Package redact shows objects without their secrets, and the differences between them.
//
// What is stored is never shown as it is: also an error, a difference or an entry of the audit log goes through here.
package redact

import (
	"github.com/aymanbagabas/go-udiff"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// Diff returns a unified diff of two objects as YAML. One may be nil. Both are redacted.
func Diff(old, shown configv1.Object) (string, error) {
	before, from, err := yamlOf(old, "stored ")
	if err != nil {
		return "", err
	}
	after, to, err := yamlOf(shown, "new ")
	if err != nil {
		return "", err
	}
	return udiff.Unified(from, to, before, after), nil
}

func yamlOf(o configv1.Object, which string) (text, title string, err error) {
	if o == nil {
		return "", "/dev/null", nil
	}
	y, err := configv1.MarshalYAML(Object(o))
	return string(y), which + configv1.Label(o), err
}

// Object returns a copy of an object that can be shown. Of a password it says that there is one, so that a
// difference shows.
func Object(o configv1.Object) configv1.Object {
	shown := configv1.Redact(o)
	if account, ok := o.(*configv1.Account); ok && account.GetPassword() != "" {
		shown.(*configv1.Account).Password = configv1.Redacted
	}
	return shown
}
