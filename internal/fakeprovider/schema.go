package fakeprovider

import (
	"encoding/json"
	"strings"
)

// maxDepth is how deep an example goes. A schema may refer to itself.
const maxDepth = 16

// A schema is what an example needs of a JSON Schema.
type schema struct {
	Ref        string             `json:"$ref"`
	Defs       map[string]*schema `json:"$defs"`
	Type       types              `json:"type"`
	Const      any                `json:"const"`
	Enum       []any              `json:"enum"`
	AnyOf      []*schema          `json:"anyOf"`
	OneOf      []*schema          `json:"oneOf"`
	AllOf      []*schema          `json:"allOf"`
	Properties map[string]*schema `json:"properties"`
	Required   []string           `json:"required"`
	Items      *schema            `json:"items"`
	Minimum    *float64           `json:"minimum"`
	MinItems   int                `json:"minItems"`
}

// types are a schema's types: one, or several alternatives.
type types []string

// UnmarshalJSON reads a string or an array of strings.
func (t *types) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '[' {
		return json.Unmarshal(data, (*[]string)(t))
	}
	var one string
	err := json.Unmarshal(data, &one)
	*t = types{one}
	return err
}

// example returns an object that a JSON Schema allows, with the properties that it requires. A schema that cannot be
// read allows anything.
func example(data []byte) any {
	var root schema
	if len(data) == 0 || json.Unmarshal(data, &root) != nil {
		return map[string]any{}
	}
	if len(root.Type) == 0 && root.Ref == "" && root.AnyOf == nil && root.OneOf == nil {
		root.Type = types{"object"}
	}
	return root.example(&root, 0)
}

func (s *schema) example(root *schema, depth int) any {
	if s == nil || depth > maxDepth {
		return nil
	}
	switch {
	case s.Ref == "#":
		return root.example(root, depth+1)
	case s.Ref != "":
		return root.Defs[strings.TrimPrefix(s.Ref, "#/$defs/")].example(root, depth+1)
	case s.Const != nil:
		return s.Const
	case len(s.Enum) > 0:
		return s.Enum[0]
	case len(s.AnyOf) > 0:
		return s.AnyOf[0].example(root, depth+1)
	case len(s.OneOf) > 0:
		return s.OneOf[0].example(root, depth+1)
	case len(s.AllOf) > 0:
		return s.AllOf[0].example(root, depth+1)
	}
	switch s.kind() {
	case "object":
		object := map[string]any{}
		for _, name := range s.Required {
			object[name] = s.Properties[name].example(root, depth+1)
		}
		return object
	case "array":
		array := []any{}
		for len(array) < max(1, min(s.MinItems, maxDepth)) && s.Items != nil && depth < maxDepth {
			array = append(array, s.Items.example(root, depth+1))
		}
		return array
	case "integer", "number":
		if s.Minimum != nil {
			return *s.Minimum
		}
		return 1
	case "boolean":
		return true
	case "null":
		return nil
	}
	return "text"
}

// kind returns the type to make an example of: the first that is not null.
func (s *schema) kind() string {
	for _, t := range s.Type {
		if t != "null" {
			return t
		}
	}
	switch {
	case len(s.Type) > 0:
		return "null"
	case s.Properties != nil:
		return "object"
	case s.Items != nil:
		return "array"
	}
	return "string"
}
