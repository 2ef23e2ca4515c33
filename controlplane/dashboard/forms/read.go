package forms

import (
	"cmp"
	"net/url"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// Read sets fields of an object from the form values of their names. The schema says how each is read: a text, a
// check box, a choice, a list with an item in each line, lines of name=value, a time, limits or budgets. It goes on
// after an error, so that the page can show everything that was typed, and returns the first error. A field of another
// type is a defect, and panics.
func Read(f url.Values, o proto.Message, names ...string) (first error) {
	m := o.ProtoReflect()
	for _, name := range names {
		field := m.Descriptor().Fields().ByName(protoreflect.Name(name))
		if field == nil {
			panic("forms: " + string(m.Descriptor().Name()) + " has no field " + name)
		}
		first = cmp.Or(first, read(f, m, field))
	}
	return first
}

func read(f url.Values, m protoreflect.Message, field protoreflect.FieldDescriptor) error {
	text := strings.TrimSpace(f.Get(string(field.Name())))
	switch {
	case field.IsMap():
		pairs, err := Pairs(text, string(field.Name()))
		m.Clear(field)
		for name, value := range pairs {
			m.Mutable(field).Map().Set(protoreflect.ValueOfString(name).MapKey(), protoreflect.ValueOfString(value))
		}
		return err
	case field.IsList():
		items, err := list(f, text, field)
		m.Clear(field)
		for _, item := range items {
			m.Mutable(field).List().Append(item)
		}
		return err
	case field.Kind() == protoreflect.StringKind:
		m.Set(field, protoreflect.ValueOfString(text))
	case field.Kind() == protoreflect.BoolKind:
		m.Set(field, protoreflect.ValueOfBool(text != ""))
	case field.Kind() == protoreflect.EnumKind:
		m.Clear(field)
		if value := field.Enum().Values().ByName(protoreflect.Name(text)); value != nil {
			m.Set(field, protoreflect.ValueOfEnum(value.Number()))
		}
	case isA(field, (*timestamppb.Timestamp)(nil)):
		at, err := Time(text)
		m.Clear(field)
		if at != nil {
			m.Set(field, protoreflect.ValueOfMessage(at.ProtoReflect()))
		}
		return err
	default:
		panic("forms: no form has fields such as " + string(field.FullName()))
	}
	return nil
}

func list(f url.Values, text string, field protoreflect.FieldDescriptor) ([]protoreflect.Value, error) {
	var items []protoreflect.Value
	switch {
	case field.Kind() == protoreflect.StringKind:
		for _, item := range List(text) {
			items = append(items, protoreflect.ValueOfString(item))
		}
	case isA(field, (*configv1.Limit)(nil)):
		limits, err := Limits(f)
		for _, l := range limits {
			items = append(items, protoreflect.ValueOfMessage(l.ProtoReflect()))
		}
		return items, err
	case isA(field, (*configv1.Budget)(nil)):
		for _, b := range Budgets(f) {
			items = append(items, protoreflect.ValueOfMessage(b.ProtoReflect()))
		}
	default:
		panic("forms: no form has lists such as " + string(field.FullName()))
	}
	return items, nil
}

// isA reports whether the values of a field are messages of a type.
func isA(field protoreflect.FieldDescriptor, of proto.Message) bool {
	return field.Kind() == protoreflect.MessageKind && field.Message() == of.ProtoReflect().Descriptor()
}
