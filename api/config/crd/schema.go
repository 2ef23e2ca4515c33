package crd

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/modelgate/modelgate/api/config/options"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// deepest is how often a message may be within itself: schemas of Kubernetes cannot refer to themselves.
const deepest = 4

// Bounds of what has none of its own: without them the API server takes rules for too expensive.
const (
	mostElements = 5000
	mostDuration = 24 // characters
)

// message returns the schema of a message. Above are the messages around it.
func message(m protoreflect.MessageDescriptor, above []protoreflect.FullName) object {
	if within := slices.DeleteFunc(slices.Clone(above), func(n protoreflect.FullName) bool {
		return n != m.FullName()
	}); len(within) >= deepest {
		return object{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	}
	above = append(slices.Clone(above), m.FullName())
	properties := object{}
	s := object{"type": "object", "properties": properties}
	if text := configv1.AboutMessage(m); text != "" {
		s["description"] = text
	}
	var required []string
	for i := range m.Fields().Len() {
		fd := m.Fields().Get(i)
		o, name := options.Of(fd), string(fd.Name())
		if o.GetApiOnly() {
			continue
		}
		properties[name] = field(fd, above)
		switch {
		case o.GetFromElsewhere():
			properties[name+From] = elsewhere(name)
			rule(s, fmt.Sprintf("!has(self.%[1]s) || !has(self.%[1]s%[2]s)", name, From),
				fmt.Sprintf("%s or %s%s, not both", name, name, From))
			if o.IsRequired() {
				rule(s, fmt.Sprintf("has(self.%[1]s) || has(self.%[1]s%[2]s)", name, From),
					fmt.Sprintf("%s or %s%s is required", name, name, From))
			}
		case o.IsRequired():
			required = append(required, name)
		}
		if needs := o.GetNeeds(); needs != "" {
			rule(s, fmt.Sprintf("!has(self.%[1]s) || self.%[1]s == '' || has(self.%[2]s) && self.%[2]s != ''", name, needs),
				name+" needs an "+needs)
		}
	}
	if len(required) > 0 {
		s["required"] = required
	}
	oneofs(m, s, properties)
	return s
}

// oneofs demands one member of each oneof. A credential may also be in a Secret.
func oneofs(m protoreflect.MessageDescriptor, s, properties object) {
	for i := range m.Oneofs().Len() {
		o := m.Oneofs().Get(i)
		if o.IsSynthetic() {
			continue
		}
		var members []string
		if m.Name() == "Credential" {
			properties[SecretRef] = reference("Key of a Secret. The control plane follows it.")
			members = append(members, SecretRef)
		}
		for j := range o.Fields().Len() {
			if fd := o.Fields().Get(j); !options.Of(fd).GetApiOnly() {
				members = append(members, string(fd.Name()))
			}
		}
		oneOf(s, members)
	}
}

// field returns the schema of a field.
func field(fd protoreflect.FieldDescriptor, above []protoreflect.FullName) object {
	o := options.Of(fd)
	var s object
	switch {
	case fd.IsMap():
		s = object{"type": "object", "additionalProperties": value(fd.MapValue(), &options.Field{}, above)}
	case fd.IsList():
		s = list(fd, o, above)
	default:
		s = value(fd, o, above)
	}
	if text := configv1.About(fd); text != "" {
		s["description"] = text
	}
	return s
}

func list(fd protoreflect.FieldDescriptor, o *options.Field, above []protoreflect.FullName) object {
	items := value(fd, o, above)
	s := object{"type": "array", "items": items, "maxItems": mostElements}
	if most := mostOf(o); most > 0 {
		s["maxItems"] = most
	}
	if least := o.GetItems().GetLeast(); least > 0 {
		s["minItems"] = least
	} else if o.IsRequired() {
		s["minItems"] = 1
	}
	switch {
	case !o.GetDistinct():
	case fd.Kind() == protoreflect.StringKind:
		s["x-kubernetes-list-type"] = "set"
	default:
		s["x-kubernetes-list-type"], s["x-kubernetes-list-map-keys"] = "map", []string{"name"}
	}
	return s
}

// value returns the schema of one value of a field.
func value(fd protoreflect.FieldDescriptor, o *options.Field, above []protoreflect.FullName) object {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return object{"type": "boolean"}
	case protoreflect.Uint32Kind:
		return whole(o.GetNumber())
	case protoreflect.Int64Kind:
		return object{"type": "integer", "format": "int64"}
	case protoreflect.Uint64Kind:
		return whole(o.GetNumber())
	case protoreflect.DoubleKind:
		return object{"type": "number"}
	case protoreflect.EnumKind:
		var names []string
		for i := 1; i < fd.Enum().Values().Len(); i++ {
			names = append(names, string(fd.Enum().Values().Get(i).Name()))
		}
		return object{"type": "string", "enum": names}
	case protoreflect.MessageKind:
		switch fd.Message().FullName() {
		case "google.protobuf.Duration":
			return duration(o)
		case "google.protobuf.Timestamp":
			return object{"type": "string", "format": "date-time"}
		}
		return message(fd.Message(), above)
	}
	return text(o)
}

// whole is the schema of a whole number. 0 means that it is absent.
func whole(b *options.Bounds) object {
	s := object{"type": "integer", "format": "int64", "minimum": 0}
	if b == nil {
		return s
	}
	s["maximum"] = b.GetMost()
	if least := b.GetLeast(); least > 1 {
		s["anyOf"] = []object{{"maximum": 0}, {"minimum": least}}
	}
	return s
}

func duration(o *options.Field) object {
	s := object{"type": "string", "pattern": `^-?[0-9]+(\.[0-9]{1,9})?s$`, "maxLength": mostDuration}
	if o.GetForm() == options.Form_TIMEOUT {
		rule(s, "duration(self) > duration('0s') && duration(self) <= duration('24h')",
			"must be more than 0 s and at most 24 h")
	}
	if b := o.GetSeconds(); b != nil {
		rule(s, fmt.Sprintf("duration(self) >= duration('%ds') && duration(self) <= duration('%ds')", b.GetLeast(),
			b.GetMost()), fmt.Sprintf("must be between %ds and %ds", b.GetLeast(), b.GetMost()))
	}
	return s
}

// text is the schema of a text of a form. One that is not required may be empty.
func text(o *options.Field) object {
	s := object{"type": "string"}
	form := configv1.FormOf(o.GetForm())
	if form.Most > 0 {
		s["maxLength"] = form.Most
	}
	switch {
	case len(form.Values) > 0 && o.IsRequired():
		s["enum"] = form.Values
	case len(form.Values) > 0:
		s["enum"] = append([]string{""}, form.Values...)
	case form.Pattern != "" && o.GetRefers() != "":
		delete(s, "maxLength") // NAMESPACE/NAME
		s["pattern"] = `^$|^([a-z0-9-]+/)?[A-Za-z0-9._-]+$`
		if o.IsRequired() {
			s["pattern"] = `^([a-z0-9-]+/)?[A-Za-z0-9._-]+$`
		}
	case form.Pattern != "" && o.IsRequired():
		s["pattern"] = form.Pattern
	case form.Pattern != "":
		s["pattern"] = "^$|" + form.Pattern
	case o.IsRequired() && o.GetForm() != options.Form_RULE:
		s["minLength"] = 1
	}
	return s
}
