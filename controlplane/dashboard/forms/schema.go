package forms

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/modelgate/modelgate/api/config/options"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// Kinds of the fields of a form that is made from the schema.
const (
	kindText   = "text"
	kindArea   = "area"  // a text of several lines
	kindLines  = "lines" // a text a line
	kindPairs  = "pairs" // name=value a line
	kindSecret = "secret"
	kindCheck  = "check"
	kindChoice = "choice"
	kindGroup  = "group" // a message
	kindRows   = "rows"  // a list of messages, and an empty one
)

// A Field is a field of a form that is made from the schema of an object.
type Field struct {
	// Path is the path of the field in the object, as errors have it, such as rules[0].name. It is the name of the input.
	Path, Label, Hint, Kind, Value string
	Required                       bool
	// Set is set for a check box that is checked, and for a group that the object has.
	Set     bool
	Choices []Choice
	Fields  []Field // of a group, and the groups of rows
}

// Nested reports whether the field has fields of its own.
func (f Field) Nested() bool { return f.Kind == kindGroup || f.Kind == kindRows }

// Fields returns the fields of a form for an object, filled in. Names of objects are not among them.
func Fields(o configv1.Object) []Field {
	var fields []Field
	for _, f := range fieldsOf("", o.ProtoReflect()) {
		if f.Path != "name" {
			fields = append(fields, f)
		}
	}
	return fields
}

func fieldsOf(prefix string, m protoreflect.Message) []Field {
	var all []Field
	descriptors := m.Descriptor().Fields()
	for i := range descriptors.Len() {
		fd := descriptors.Get(i)
		if fd.Kind() == protoreflect.BytesKind { // the gateway's own
			continue
		}
		o := options.Of(fd)
		f := Field{Path: prefix + string(fd.Name()), Label: labelOf(string(fd.Name())), Hint: configv1.About(fd),
			Required: o.IsRequired() && !fd.IsList()}
		switch {
		case fd.IsMap():
			f.Kind, f.Value = kindPairs, pairsIn(m.Get(fd).Map())
		case fd.IsList() && isMessage(fd):
			f.Kind, f.Fields = kindRows, rowsOf(f.Path, m.Get(fd).List())
		case fd.IsList():
			f.Kind, f.Value = kindLines, linesOf(fd, m.Get(fd).List())
			if fd.Kind() == protoreflect.EnumKind {
				f.Hint = strings.TrimSpace(f.Hint + " One per line of: " + strings.Join(valuesOf(fd), ", ") + ".")
			}
		case isMessage(fd):
			f.Kind, f.Set, f.Fields = kindGroup, m.Has(fd), fieldsOf(f.Path+".", m.Get(fd).Message())
		default:
			f.scalar(fd, o, m)
		}
		all = append(all, f)
	}
	return all
}

func (f *Field) scalar(fd protoreflect.FieldDescriptor, o *options.Field, m protoreflect.Message) {
	f.Kind, f.Value = kindText, textOf(fd, m.Get(fd))
	if !m.Has(fd) {
		f.Value = ""
	}
	switch {
	case fd.Kind() == protoreflect.BoolKind && !fd.HasPresence():
		f.Kind, f.Set = kindCheck, m.Get(fd).Bool()
	case fd.Kind() == protoreflect.BoolKind:
		f.Kind, f.Choices = kindChoice, []Choice{{"", "default"}, {"true", "yes"}, {"false", "no"}}
	case fd.Kind() == protoreflect.EnumKind:
		f.Kind, f.Choices = kindChoice, []Choice{{"", "default"}}
		for _, name := range valuesOf(fd) {
			f.Choices = append(f.Choices, Choice{name, strings.ToLower(strings.ReplaceAll(name, "_", " "))})
		}
	case fd.FullName() == "modelgate.config.v1.Credential.value":
		f.Kind = kindSecret
		if f.Value != configv1.Redacted { // what somebody typed is not shown again
			f.Value = ""
		}
	case o.GetForm() == options.Form_EXPRESSION, o.GetForm() == options.Form_PEM, strings.Contains(f.Value, "\n"):
		f.Kind = kindArea
	}
}

// rowsOf returns a group for each message of a list, and one that is empty.
func rowsOf(path string, list protoreflect.List) []Field {
	var rows []Field
	for i := range list.Len() + 1 {
		m := list.NewElement().Message()
		if i < list.Len() {
			m = list.Get(i).Message()
		}
		at := fmt.Sprintf("%s[%d]", path, i)
		rows = append(rows, Field{Path: at, Label: strconv.Itoa(i + 1), Kind: kindGroup, Set: i < list.Len(),
			Fields: fieldsOf(at+".", m)})
	}
	return rows
}

// isMessage reports whether the values of a field are messages that have fields of their own in a form.
func isMessage(fd protoreflect.FieldDescriptor) bool {
	return fd.Kind() == protoreflect.MessageKind && !isA(fd, (*durationpb.Duration)(nil)) &&
		!isA(fd, (*timestamppb.Timestamp)(nil))
}

// labelOf returns the name of a field in words.
func labelOf(name string) string {
	words := strings.ReplaceAll(name, "_", " ")
	return strings.ToUpper(words[:1]) + words[1:]
}

func valuesOf(fd protoreflect.FieldDescriptor) []string {
	var names []string
	values := fd.Enum().Values()
	for i := range values.Len() {
		if v := values.Get(i); v.Number() != 0 {
			names = append(names, string(v.Name()))
		}
	}
	return names
}

// textOf writes one value of a field.
func textOf(fd protoreflect.FieldDescriptor, v protoreflect.Value) string {
	switch {
	case fd.Kind() == protoreflect.EnumKind:
		if value := fd.Enum().Values().ByNumber(v.Enum()); value != nil && value.Number() != 0 {
			return string(value.Name())
		}
		return ""
	case fd.Kind() == protoreflect.DoubleKind:
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	case isA(fd, (*durationpb.Duration)(nil)):
		d, _ := v.Message().Interface().(*durationpb.Duration)
		return strconv.FormatFloat(d.AsDuration().Seconds(), 'f', -1, 64) + "s"
	case isA(fd, (*timestamppb.Timestamp)(nil)):
		at, _ := v.Message().Interface().(*timestamppb.Timestamp)
		return at.AsTime().Format(time.RFC3339Nano)
	}
	return v.String()
}

func linesOf(fd protoreflect.FieldDescriptor, list protoreflect.List) string {
	lines := make([]string, list.Len())
	for i := range lines {
		lines[i] = textOf(fd, list.Get(i))
	}
	return strings.Join(lines, "\n")
}

func pairsIn(m protoreflect.Map) string {
	pairs := map[string]string{}
	m.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		pairs[k.String()] = v.String()
		return true
	})
	return PairLines(pairs)
}
