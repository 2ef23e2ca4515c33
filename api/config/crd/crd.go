// Package crd makes the CustomResourceDefinitions by which the configuration is declared as objects of Kubernetes. It
// reads the options of the messages, as every other list of kinds and fields does.
//
// The spec of an object is the document of its kind, with the same names of fields. What the API server cannot check,
// such as what an object refers to, the control plane checks and says in a condition.
package crd

import (
	"cmp"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"sigs.k8s.io/yaml"

	"github.com/modelgate/modelgate/api/config/options"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

//go:generate go run gencrds.go -o ../../../charts/modelgate/definitions

// Group and Version are those of all objects.
const (
	Group   = "modelgate.dev"
	Version = "v1alpha1"
)

// Category is what kubectl get calls all objects together.
const Category = "modelgate"

// Conditions of objects.
const (
	Accepted     = "Accepted"
	ResolvedRefs = "ResolvedRefs"
	Programmed   = "Programmed"
)

type object = map[string]any

// Kinds returns the kinds that Kubernetes has, in the order for display. The others are written by the gateway alone.
func Kinds() []configv1.Kind {
	return slices.DeleteFunc(configv1.Kinds(), func(k configv1.Kind) bool { return k.Options.GetShort() == "" })
}

// Definition returns the CustomResourceDefinition of a kind, as YAML.
func Definition(k configv1.Kind) ([]byte, error) {
	m := k.New().ProtoReflect().Descriptor()
	spec := message(m, nil)
	named(spec, m)
	names := object{"kind": k.Name, "listKind": k.Name + "List", "plural": k.Plural,
		"singular": strings.ToLower(k.Name), "categories": []string{Category}, "shortNames": []string{k.Options.GetShort()}}
	version := object{
		"name": Version, "served": true, "storage": true,
		"subresources":             object{"status": object{}},
		"additionalPrinterColumns": columns(k, m),
		"schema": object{"openAPIV3Schema": object{
			"type": "object", "required": []string{"spec"}, "description": k.Options.GetSummary() + ".",
			"properties": object{
				"apiVersion": object{"type": "string"}, "kind": object{"type": "string"},
				"metadata": object{"type": "object"}, "spec": spec, "status": status(),
			},
		}},
	}
	return yaml.Marshal(object{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": object{"name": k.Plural + "." + Group},
		"spec":     object{"group": Group, "names": names, "scope": "Namespaced", "versions": []object{version}},
	})
}

// named completes the schema of a kind. The name in the gateway is the object's, unless the spec has another one. It
// cannot change.
func named(spec object, m protoreflect.MessageDescriptor) {
	properties := spec["properties"].(object)
	fd := m.Fields().ByName("name")
	required, _ := spec["required"].([]string)
	required = slices.DeleteFunc(required, func(s string) bool { return s == "name" })
	switch o := options.Of(fd); {
	case Generated(m), o.GetForm() == options.Form_SINGLE:
		delete(properties, "name")
	default:
		name := properties["name"].(object)
		name["description"] = "Name in the gateway. Default: the name of the object. It cannot change."
		if o.GetForm() == options.Form_RULE {
			required = append(required, "name")
		}
		rule(spec, "has(self.name) == has(oldSelf.name) && (!has(self.name) || self.name == oldSelf.name)",
			"name cannot change: make another object")
	}
	delete(spec, "required")
	if len(required) > 0 {
		spec["required"] = required
	}
}

// Generated reports whether the gateway gives objects of a kind their names, and their secrets.
func Generated(m protoreflect.MessageDescriptor) bool { return m.Fields().ByName("hash") != nil }

// rule adds a rule in CEL to a schema.
func rule(s object, expression, message string) {
	rules, _ := s["x-kubernetes-validations"].([]object)
	s["x-kubernetes-validations"] = append(rules, object{"rule": expression, "message": message})
}

// columns returns the columns of kubectl get: those of the tables elsewhere, as far as the spec has the fields, and
// what became of the object.
func columns(k configv1.Kind, m protoreflect.MessageDescriptor) []object {
	var all []object
	for _, c := range k.Options.GetColumns() {
		fd := m.Fields().ByName(protoreflect.Name(c.GetField()))
		if options.Of(fd).GetApiOnly() {
			continue
		}
		path := ".spec." + c.GetField()
		if fd.IsList() && fd.Message() != nil {
			path += "[*]." + string(first(fd.Message()).Name())
		}
		all = append(all, object{"name": c.GetHeader(), "type": "string", "jsonPath": path,
			"description": configv1.About(fd)})
	}
	condition := func(name, of, member string, priority int) object {
		c := object{"name": name, "type": "string", "jsonPath": `.status.conditions[?(@.type=="` + of + `")].` + member}
		if priority > 0 {
			c["priority"] = priority
		}
		return c
	}
	return append(all, condition("ACCEPTED", Accepted, "status", 0), condition("PROGRAMMED", Programmed, "status", 0),
		condition("REASON", Accepted, "reason", 0), condition("MESSAGE", Accepted, "message", 1),
		object{"name": "GATEWAY-NAME", "type": "string", "jsonPath": ".status.name", "priority": 1},
		object{"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"})
}

// first returns the first field of a message that is a text and required, or else the first one.
func first(m protoreflect.MessageDescriptor) protoreflect.FieldDescriptor {
	for i := range m.Fields().Len() {
		if fd := m.Fields().Get(i); fd.Kind() == protoreflect.StringKind && options.Of(fd).IsRequired() {
			return fd
		}
	}
	return m.Fields().Get(0)
}

// status is the schema of what the control plane says of an object.
func status() object {
	text := func(about string) object { return object{"type": "string", "description": about} }
	condition := object{
		"type": "object", "required": []string{"type", "status", "lastTransitionTime", "reason", "message"},
		"properties": object{
			"type":               object{"type": "string", "maxLength": 316},
			"status":             object{"type": "string", "enum": []string{"True", "False", "Unknown"}},
			"observedGeneration": object{"type": "integer", "format": "int64", "minimum": 0},
			"lastTransitionTime": object{"type": "string", "format": "date-time"},
			"reason":             object{"type": "string", "minLength": 1, "maxLength": 1024},
			"message":            object{"type": "string", "maxLength": 32768},
		},
	}
	return object{"type": "object", "description": "What the control plane says of the object.", "properties": object{
		"observedGeneration": object{"type": "integer", "format": "int64"},
		"name":               text("Name in the gateway."),
		"secret":             text("Secret that the control plane has made, in the same namespace."),
		"conditions": object{"type": "array", "items": condition, "x-kubernetes-list-type": "map",
			"x-kubernetes-list-map-keys": []string{"type"}},
	}}
}

// reference is the schema of a key of a Secret or a ConfigMap.
func reference(about string) object {
	return object{"type": "object", "description": about, "required": []string{"name", "key"}, "properties": object{
		"name": object{"type": "string", "minLength": 1, "maxLength": 253},
		"key":  object{"type": "string", "minLength": 1, "maxLength": 253},
		"namespace": object{"type": "string", "maxLength": 63,
			"description": "Default: that of the object. Another one takes a ReferenceGrant there."},
	}}
}

// Names of what only objects of Kubernetes have.
const (
	SecretRef    = "secret_key_ref"
	ConfigMapRef = "config_map_key_ref"
	// From is the end of the name of a field that says where the text of another is.
	From = "_from"
)

// elsewhere is the schema of where the text of a field is.
func elsewhere(field string) object {
	s := object{"type": "object", "description": "Where " + field + " is, in its place.", "properties": object{
		SecretRef: reference("Key of a Secret."), ConfigMapRef: reference("Key of a ConfigMap.")}}
	oneOf(s, []string{SecretRef, ConfigMapRef})
	return s
}

// oneOf demands one of several members.
func oneOf(s object, members []string) {
	has := make([]string, len(members))
	for i, m := range members {
		has[i] = "has(self." + m + ")"
	}
	rule(s, "["+strings.Join(has, ", ")+"].exists_one(x, x)", "exactly one of "+strings.Join(members, ", "))
}

// IsCredential reports whether a field is a Credential, which may be a key of a Secret.
func IsCredential(fd protoreflect.FieldDescriptor) bool {
	return fd.Message() != nil && fd.Message().Name() == "Credential"
}

// mostOf returns the most elements of a list, or 0.
func mostOf(o *options.Field) uint64 { return cmp.Or(o.GetItems().GetMost(), o.GetElements()) }
