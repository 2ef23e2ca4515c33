package scim

import (
	"maps"
	"slices"

	"github.com/scim2/filter-parser/v2"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// maxOperations bounds the operations of a PATCH.
const maxOperations = 1000

// An operation is one of a PATCH (RFC 7644, section 3.5.2), for one attribute.
type operation struct {
	op    string // add, replace or remove
	name  string // of the attribute, in lower case; empty if it is none of the resource's own schema
	path  filter.Path
	value any
}

// operations reads a PATCH. An operation without a path becomes one for each attribute of its value. The case of names
// does not count: Entra ID writes "Add".
func operations(body attributes, schema string) ([]operation, error) {
	list, ok := body["operations"].([]any)
	if !ok || len(list) == 0 || len(list) > maxOperations {
		return nil, bad("invalidSyntax", "A PATCH needs a list Operations of 1 to 1000.")
	}
	var all []operation
	for _, element := range list {
		o, err := foldedOf("Operations", element)
		if err != nil {
			return nil, err
		}
		some, err := operationsOf(o, schema)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

func operationsOf(o attributes, schema string) ([]operation, error) {
	op, _ := o["op"].(string)
	op = configv1.Fold(op)
	if op != "add" && op != "replace" && op != "remove" {
		return nil, bad("invalidSyntax", "The op of an operation must be add, replace or remove.")
	}
	path, isText := o["path"].(string)
	if o["path"] != nil && !isText {
		return nil, bad("invalidPath", "The path of an operation must be a text.")
	}
	if path != "" {
		one, err := operationOf(op, path, schema, o["value"])
		return []operation{one}, err
	}
	if op == "remove" {
		return nil, bad("noTarget", "An operation remove needs a path.")
	}
	values, err := foldedOf("value", o["value"])
	if err != nil {
		return nil, err
	}
	var all []operation
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if slices.Contains([]string{"schemas", "id", "meta"}, name) {
			continue // Okta repeats the id
		}
		one, err := operationOf(op, name, schema, values[name])
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

func operationOf(op, path, schema string, value any) (operation, error) {
	o := operation{op: op, value: value}
	if len(path) > maxFilter {
		return o, errPath(path[:maxText])
	}
	var err error
	if o.path, err = filter.ParsePath([]byte(path)); err != nil {
		return o, errPath(path)
	}
	if uri := o.path.AttributePath.URI(); uri == "" || isSchema(uri, schema) {
		o.name = configv1.Fold(o.path.AttributePath.AttributeName)
	}
	return o, nil
}

// isPart reports whether an operation is about a part of its attribute.
func (o operation) isPart() bool {
	return o.path.ValueExpression != nil || o.path.SubAttributeName() != "" ||
		o.path.AttributePath.SubAttributeName() != ""
}

func errPath(path string) error {
	return bad("invalidPath", "The path "+path+" names nothing that can be changed.")
}

func errReadOnly(name string) error {
	return bad("mutability", "The attribute "+name+" cannot be changed.")
}
