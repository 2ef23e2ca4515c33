package scim

import (
	"encoding/json"
	"unicode/utf8"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// maxText bounds a text of an attribute, in bytes.
const maxText = 256

// attributes are members of an object, by their names in lower case: names do not depend on case (RFC 7643, section
// 2.1).
type attributes map[string]any

// parse reads the body of a request.
func parse(text []byte) (attributes, error) {
	var object map[string]any
	if err := json.Unmarshal(text, &object); err != nil || object == nil || !utf8.Valid(text) {
		return nil, bad("invalidSyntax", "The body must be a JSON object.")
	}
	return folded(object)
}

func folded(object map[string]any) (attributes, error) {
	all := attributes{}
	for name, value := range object {
		lower := configv1.Fold(name)
		if _, twice := all[lower]; twice {
			return nil, bad("invalidSyntax", "The attribute "+lower+" is given twice.")
		}
		all[lower] = value
	}
	return all, nil
}

// foldedOf returns the attributes of a value that must be an object.
func foldedOf(name string, value any) (attributes, error) {
	object, ok := value.(map[string]any)
	if !ok {
		return nil, bad("invalidValue", "The attribute "+name+" must be an object.")
	}
	return folded(object)
}

// isSchema reports whether a URI names a schema.
func isSchema(uri, schema string) bool { return configv1.Fold(uri) == configv1.Fold(schema) }

// textOf returns a text. Null is an empty one.
func textOf(name string, value any) (string, error) {
	s, ok := value.(string)
	if !ok && value != nil || len(s) > maxText {
		return "", bad("invalidValue", "The attribute "+name+" must be a text of at most 256 bytes.")
	}
	return s, nil
}

// boolOf returns a boolean. Entra ID writes it as a text (application-provisioning-config-problem-scim-compatibility
// below https://learn.microsoft.com/entra/identity/app-provisioning/).
func boolOf(name string, value any) (bool, error) {
	switch v := value.(type) {
	case bool:
		return v, nil
	case string:
		switch configv1.Fold(v) {
		case "true":
			return true, nil
		case "false":
			return false, nil
		}
	}
	return false, bad("invalidValue", "The attribute "+name+" must be true or false.")
}

// elementsOf returns the objects of a list. One object stands for a list of it.
func elementsOf(name string, value any) ([]attributes, error) {
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	}
	var all []attributes
	for _, v := range list {
		a, err := foldedOf(name, v)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}
