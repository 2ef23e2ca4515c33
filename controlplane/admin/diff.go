package admin

import (
	"github.com/aymanbagabas/go-udiff"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// diffObjects returns a unified diff of two objects as YAML, of which one may be nil. Both are redacted.
func diffObjects(old, shown configv1.Object) (string, error) {
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
	y, err := configv1.MarshalYAML(redacted(o))
	return string(y), which + configv1.Label(o), err
}
