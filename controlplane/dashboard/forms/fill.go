package forms

import (
	"cmp"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
)

// Fill puts what the form of [Fields] says into an object. The name stays. Whatever is wrong with some, the other
// fields are filled too; the error is the first.
func Fill(f url.Values, o configv1.Object) error {
	name := o.GetName()
	err := fill(f, "", o.ProtoReflect())
	SetName(o, name)
	return err
}

// SetName names an object.
func SetName(o configv1.Object, name string) {
	m := o.ProtoReflect()
	m.Set(m.Descriptor().Fields().ByName("name"), protoreflect.ValueOfString(name))
}

func fill(f url.Values, prefix string, m protoreflect.Message) (first error) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if fd.Kind() == protoreflect.BytesKind {
			continue
		}
		path := prefix + string(fd.Name())
		if given := inOneof(f, prefix, fd); len(given) > 1 && given[0] == string(fd.Name()) {
			var twice error = openai.CodeInvalidValue.On(strings.TrimSuffix(prefix, "."), "Give one of %s.",
				strings.Join(given, ", "))
			first = cmp.Or(first, twice)
		}
		first = cmp.Or(first, fillField(f, path, m, fd))
	}
	return first
}

// inOneof returns the fields that the form gives of a choice that a field belongs to.
func inOneof(f url.Values, prefix string, fd protoreflect.FieldDescriptor) (given []string) {
	o := fd.ContainingOneof()
	if o == nil || o.IsSynthetic() {
		return nil
	}
	for i := range o.Fields().Len() {
		if name := string(o.Fields().Get(i).Name()); anyGiven(f, prefix+name) {
			given = append(given, name)
		}
	}
	return given
}

// anyGiven reports whether a form has a value for a field, or for one in it.
func anyGiven(f url.Values, path string) bool {
	for name := range f {
		rest, ok := strings.CutPrefix(name, path)
		if ok && (rest == "" || rest[0] == '.' || rest[0] == '[') && strings.TrimSpace(f.Get(name)) != "" {
			return true
		}
	}
	return false
}

func fillField(f url.Values, path string, m protoreflect.Message, fd protoreflect.FieldDescriptor) error {
	switch {
	case fd.IsList() && isMessage(fd):
		return fillRows(f, path, m, fd)
	case isMessage(fd) && !fd.IsMap():
		if !anyGiven(f, path) {
			m.Clear(fd)
			return nil
		}
		return fill(f, path+".", m.Mutable(fd).Message())
	}
	text := strings.TrimSpace(strings.ReplaceAll(f.Get(path), "\r\n", "\n"))
	m.Clear(fd)
	switch {
	case text == "":
		return nil
	case fd.IsMap():
		pairs, err := Pairs(text, path)
		for name, value := range pairs {
			m.Mutable(fd).Map().Set(protoreflect.ValueOfString(name).MapKey(), protoreflect.ValueOfString(value))
		}
		return err
	case fd.IsList():
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line == "" {
				continue
			}
			v, err := valueOf(fd, line, path)
			if err != nil {
				return err
			}
			m.Mutable(fd).List().Append(v)
		}
		return nil
	}
	v, err := valueOf(fd, text, path)
	if err == nil {
		m.Set(fd, v)
	}
	return err
}

// fillRows fills the messages of a list. A row that has nothing is none.
func fillRows(f url.Values, path string, m protoreflect.Message, fd protoreflect.FieldDescriptor) (first error) {
	rows := rowsIn(f, path)
	old := m.Get(fd).List()
	var kept []protoreflect.Value
	for i := range rows {
		at := fmt.Sprintf("%s[%d]", path, i)
		if !anyGiven(f, at) {
			continue
		}
		row := old.NewElement()
		if i < old.Len() {
			row = old.Get(i)
		}
		first = cmp.Or(first, fill(f, at+".", row.Message()))
		kept = append(kept, row)
	}
	m.Clear(fd)
	for _, row := range kept {
		m.Mutable(fd).List().Append(row)
	}
	return first
}

// maxRows bounds the rows that a form can have.
const maxRows = 200

// rowsIn returns how many rows a form has.
func rowsIn(f url.Values, path string) int {
	most := 0
	for name := range f {
		rest, ok := strings.CutPrefix(name, path+"[")
		number, _, closed := strings.Cut(rest, "]")
		if n, err := strconv.Atoi(number); ok && closed && err == nil && n >= 0 && n < maxRows {
			most = max(most, n+1)
		}
	}
	return most
}

// valueOf reads one value of a field.
func valueOf(fd protoreflect.FieldDescriptor, text, path string) (v protoreflect.Value, err error) {
	wrong := func(what string) error { return openai.CodeInvalidValue.On(path, "%q is not %s.", text, what) }
	switch fd.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(text), nil
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(text != "false"), nil
	case protoreflect.EnumKind:
		value := fd.Enum().Values().ByName(protoreflect.Name(strings.ToUpper(text)))
		if value == nil {
			return v, wrong("one of " + strings.Join(valuesOf(fd), ", "))
		}
		return protoreflect.ValueOfEnum(value.Number()), nil
	case protoreflect.DoubleKind:
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return v, wrong("a number")
		}
		return protoreflect.ValueOfFloat64(n), nil
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind, protoreflect.Int64Kind:
		return wholeOf(fd, text, wrong)
	case protoreflect.MessageKind:
		return timeOf(fd, text, wrong)
	}
	return v, wrong("a value that a form can have")
}

func wholeOf(fd protoreflect.FieldDescriptor, text string, wrong func(string) error) (v protoreflect.Value, _ error) {
	switch n, err := Amount(text, ""); {
	case err != nil:
		return v, wrong("a whole number")
	case fd.Kind() == protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(n), nil
	case fd.Kind() == protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(int64(n)), nil //nolint:gosec // Amount reads 63 bits
	case n > 1<<32-1:
		return v, wrong("a number below 4,294,967,296")
	default:
		return protoreflect.ValueOfUint32(uint32(n)), nil
	}
}

func timeOf(fd protoreflect.FieldDescriptor, text string, wrong func(string) error) (v protoreflect.Value, _ error) {
	if isA(fd, (*durationpb.Duration)(nil)) {
		d, err := time.ParseDuration(text)
		if err != nil {
			return v, wrong("a duration, such as 90s or 2h")
		}
		return protoreflect.ValueOfMessage(durationpb.New(d).ProtoReflect()), nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return v, wrong("a time, such as 2027-01-31T12:00:00Z")
	}
	return protoreflect.ValueOfMessage(timestamppb.New(at).ProtoReflect()), nil
}
