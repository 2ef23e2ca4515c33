package configv1

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/modelgate/modelgate/api/config/options"
)

// A ruled message has rules about several fields, or about one that no option states.
type ruled interface{ check(v *validator) }

// A stated field is a field with the statements of its options.
type stated struct {
	protoreflect.FieldDescriptor
	*options.Field
}

// statedFields are the fields of each message, in their order.
var statedFields = sync.OnceValue(func() map[protoreflect.FullName][]stated {
	all := map[protoreflect.FullName][]stated{}
	messages := File_api_config_v1_config_proto.Messages()
	for i := range messages.Len() {
		fields := messages.Get(i).Fields()
		for j := range fields.Len() {
			f := stated{fields.Get(j), options.Of(fields.Get(j))}
			all[messages.Get(i).FullName()] = append(all[messages.Get(i).FullName()], f)
		}
	}
	return all
})

// message checks what the options of a message's fields state, and then the message's own rules. The names of fields
// in errors begin with at.
func (v *validator) message(at string, m protoreflect.Message) {
	outside := v.at
	v.at = at
	for _, f := range statedFields()[m.Descriptor().FullName()] {
		v.field(m, f)
	}
	if r, ok := m.Interface().(ruled); ok {
		r.check(v)
	}
	v.at = outside
}

func (v *validator) field(m protoreflect.Message, f stated) {
	name := string(f.Name())
	if !m.Has(f.FieldDescriptor) {
		v.absent(f)
		return
	}
	if f.GetNeeds() != "" && !m.Has(m.Descriptor().Fields().ByName(protoreflect.Name(f.GetNeeds()))) {
		v.fail(name, "needs an %s", f.GetNeeds())
	}
	value := m.Get(f.FieldDescriptor)
	switch {
	case f.IsMap():
	case f.IsList():
		v.elements(f, value.List())
	default:
		v.value(name, f, value)
	}
}

// absent reports a required field, unless a rule of the message does.
func (v *validator) absent(f stated) {
	name, form := string(f.Name()), f.GetForm()
	switch {
	case f.GetMissing() != "":
		v.fail(name, "%s", f.GetMissing())
	case f.GetItems().GetLeast() > 0:
		v.fail(name, "must be %d to %d", f.GetItems().GetLeast(), f.GetItems().GetMost())
	case !f.GetRequired(), form == options.Form_RULE:
	case f.Enum() != nil:
		v.enum(name, f, 0)
	case form == options.Form_FORM_UNSPECIFIED, form == options.Form_TEXT, form == options.Form_HASH:
		v.fail(name, "missing")
	default:
		v.form(name, form, "")
	}
}

func (v *validator) elements(f stated, list protoreflect.List) {
	name, most := string(f.Name()), f.GetItems().GetMost()
	switch n := uint64(list.Len()); {
	case most > 0 && n > most && f.GetItems().GetLeast() > 0:
		v.fail(name, "must be %d to %d", f.GetItems().GetLeast(), most)
		return
	case most > 0 && n > most:
		v.fail(name, "must be at most %d", most)
		return
	case f.GetElements() > 0 && n > f.GetElements():
		v.fail(name, "must have at most %d elements", f.GetElements())
		return
	}
	names := make([]string, 0, list.Len())
	for i := range list.Len() {
		at := element(name, i)
		v.value(at, f, list.Get(i))
		if f.Kind() == protoreflect.StringKind {
			names = append(names, list.Get(i).String())
			if names[i] == "" && f.GetForm() == options.Form_TEXT {
				v.fail(at, "missing")
			}
		} else if o, ok := list.Get(i).Interface().(protoreflect.Message); ok && f.GetDistinct() {
			names = append(names, o.Get(o.Descriptor().Fields().ByName("name")).String())
		}
	}
	if f.GetDistinct() {
		v.distinct(name, names)
	}
}

// value checks a value that is set.
func (v *validator) value(name string, f stated, value protoreflect.Value) {
	switch f.Kind() {
	case protoreflect.StringKind:
		v.form(name, f.GetForm(), value.String())
	case protoreflect.BytesKind:
		v.form(name, f.GetForm(), string(value.Bytes()))
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		v.number(name, f.GetNumber(), value.Uint())
	case protoreflect.EnumKind:
		v.enum(name, f, value.Enum())
	case protoreflect.MessageKind:
		switch m := value.Message().Interface().(type) {
		case *timestamppb.Timestamp:
			if m.CheckValid() != nil {
				v.fail(name, "must be a time between the years 1 and 9999")
			}
		case *durationpb.Duration:
			v.duration(name, f, m)
		default:
			v.message(v.at+name+".", value.Message())
		}
	}
}

func (v *validator) number(name string, b *options.Bounds, n uint64) {
	switch {
	case b == nil, n >= b.GetLeast() && n <= b.GetMost():
	case b.Least == nil:
		v.fail(name, "must be at most %d", b.GetMost())
	default:
		v.fail(name, "must be between %d and %d", b.GetLeast(), b.GetMost())
	}
}

// enum accepts the values that have a name.
func (v *validator) enum(name string, f stated, n protoreflect.EnumNumber) {
	if f.GetForm() == options.Form_RULE || n != 0 && f.Enum().Values().ByNumber(n) != nil || n == 0 && f.HasPresence() {
		return
	}
	names := valueNames(f.Enum())
	last := len(names) - 1
	v.fail(name, "must be %s or %s", strings.Join(names[:last], ", "), names[last])
}

func (v *validator) duration(name string, f stated, d *durationpb.Duration) {
	wrong := d.CheckValid() != nil
	if f.GetForm() == options.Form_TIMEOUT && (wrong || d.AsDuration() <= 0 || d.AsDuration() > maxTimeout) {
		v.fail(name, "must be more than 0 s and at most %d h", int(maxTimeout.Hours()))
	}
	if b := f.GetSeconds(); b != nil {
		least, most := time.Duration(b.GetLeast())*time.Second, time.Duration(b.GetMost())*time.Second
		if wrong || d.AsDuration() < least || d.AsDuration() > most {
			v.fail(name, "must be between %ds and %ds", b.GetLeast(), b.GetMost())
		}
	}
}

// distinct reports the elements of a list that came before.
func (v *validator) distinct(field string, list []string) {
	for i, s := range list {
		if first := slices.Index(list, s); first < i {
			v.fail(element(field, i), "is the same as %s", v.at+element(field, first))
		}
	}
}

func element(field string, i int) string { return field + "[" + strconv.Itoa(i) + "]" }

// inWords writes the name of a kind in small letters: job service.
func inWords(kind string) string {
	var b strings.Builder
	for i, r := range kind {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
