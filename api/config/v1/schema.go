package configv1

import (
	"cmp"
	_ "embed" // of the .proto file
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/modelgate/modelgate/api/config/options"
)

// A schema is a JSON Schema.
type schema = map[string]any

// Schema returns the JSON Schema (2020-12) of a document of the kinds, which tells editors the fields, their types and
// their meaning. What an object refers to and how its fields go together is for validation.
func Schema(kinds ...Kind) ([]byte, error) {
	b := schemas{about: about(), defs: schema{}}
	var names []string
	var each []schema
	for _, k := range kinds {
		b.kind(k)
		names = append(names, k.Name)
		each = append(each, schema{
			"if":   schema{"properties": schema{kindMember: schema{"const": k.Name}}, "required": []string{kindMember}},
			"then": refTo(k.Name),
		})
	}
	document := schema{"type": "object", "required": []string{kindMember},
		"properties": schema{kindMember: schema{"enum": names, "description": "Kind of the object."}}, "allOf": each}
	b.defs["Document"] = document
	text, err := json.MarshalIndent(schema{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"title":   "Modelgate's configuration",
		"if":      schema{"type": "array"},
		"then":    schema{"items": refTo("Document")},
		"else":    refTo("Document"),
		"$defs":   b.defs,
	}, "", "  ")
	return append(text, '\n'), err
}

func refTo(name string) schema { return schema{"$ref": "#/$defs/" + name} }

// schemas gathers the schemas of messages.
type schemas struct {
	about map[string]string // by "Message" and "Message.field"
	defs  schema
}

// kind adds the schema of a kind, whose documents have two members that are no fields.
func (b *schemas) kind(k Kind) {
	b.message(k.New().ProtoReflect().Descriptor())
	properties := b.defs[k.Name].(schema)["properties"].(schema)
	properties[kindMember] = schema{"const": k.Name}
	properties[statusMember] = schema{"description": "What the gateway says of the object. It is ignored."}
}

// message adds the schema of a message and of its fields. protojson's spelling is a pattern, so that editors accept
// it but offer the other one.
func (b *schemas) message(m protoreflect.MessageDescriptor) {
	name := string(m.Name())
	if b.defs[name] != nil {
		return
	}
	properties, patterns := schema{}, schema{}
	s := schema{"type": "object", "properties": properties, "additionalProperties": false}
	b.defs[name] = s
	b.describe(s, name)
	fields := m.Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		field := b.field(fd)
		b.describe(field, name+"."+string(fd.Name()))
		properties[string(fd.Name())] = field
		if fd.JSONName() != string(fd.Name()) {
			patterns["^"+fd.JSONName()+"$"] = field
		}
		if o := fd.ContainingOneof(); o != nil && !o.IsSynthetic() && o.Fields().Len() == fields.Len() {
			s["maxProperties"] = 1
		}
	}
	if len(patterns) > 0 {
		s["patternProperties"] = patterns
	}
	if required := requiredOf(fields); len(required) > 0 {
		s["allOf"] = required
	}
}

// requiredOf demands the fields without which no object is valid, each in one of its spellings.
func requiredOf(fields protoreflect.FieldDescriptors) []schema {
	var all []schema
	for i := range fields.Len() {
		fd := fields.Get(i)
		if !options.Of(fd).IsRequired() {
			continue
		}
		one := []schema{{"required": []string{string(fd.Name())}}}
		if fd.JSONName() != string(fd.Name()) {
			one = append(one, schema{"required": []string{fd.JSONName()}})
		}
		all = append(all, schema{"anyOf": one})
	}
	return all
}

func (b *schemas) describe(s schema, of string) {
	if text := b.about[of]; text != "" {
		s["description"] = text
	}
}

// field returns the schema of a field. A field that is null is absent.
func (b *schemas) field(fd protoreflect.FieldDescriptor) schema {
	one, o := b.value(fd), options.Of(fd)
	switch {
	case fd.IsMap():
		one = schema{"type": "object", "additionalProperties": b.value(fd.MapValue())}
	case fd.IsList():
		one = schema{"type": "array", "items": one}
		if least := o.GetItems().GetLeast(); least > 0 {
			one["minItems"] = least
		}
		if most := cmp.Or(o.GetItems().GetMost(), o.GetElements()); most > 0 {
			one["maxItems"] = most
		}
		if o.GetDistinct() && fd.Kind() == protoreflect.StringKind {
			one["uniqueItems"] = true
		}
	case o.GetNumber() != nil:
		one["maximum"] = o.GetNumber().GetMost()
	}
	return schema{"anyOf": []schema{one, {"type": "null"}}}
}

// value returns the schema of one value of a field, as protojson reads it.
func (b *schemas) value(fd protoreflect.FieldDescriptor) schema {
	switch {
	case isOurs(fd):
		b.message(fd.Message())
		return refTo(string(fd.Message().Name()))
	case fd.IsMap():
		return nil
	}
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return schema{"type": "boolean"}
	case protoreflect.BytesKind:
		return schema{"type": "string", "contentEncoding": "base64"}
	case protoreflect.Uint32Kind:
		return whole(0, math.MaxUint32)
	case protoreflect.Int64Kind:
		return whole(math.MinInt64, math.MaxInt64)
	case protoreflect.Uint64Kind:
		return whole(0, math.MaxUint64)
	case protoreflect.DoubleKind:
		return schema{"type": "number"}
	case protoreflect.EnumKind:
		return schema{"enum": valueNames(fd.Enum())}
	case protoreflect.MessageKind:
		if fd.Message().Name() == "Duration" {
			return schema{"type": "string", "pattern": `^-?[0-9]+(\.[0-9]{1,9})?s$`}
		}
		return schema{"type": "string", "format": "date-time"}
	}
	return schema{"type": "string"}
}

// whole is the schema of a whole number, which may be written as a string.
func whole(least, most float64) schema {
	return schema{"type": []string{"integer", "string"}, "minimum": least, "maximum": most, "pattern": "^-?[0-9]+$"}
}

//go:embed config.proto
var protoFile string

var (
	blockLine = regexp.MustCompile(`^\s*(message|enum|oneof) (\w+) \{`)
	fieldLine = regexp.MustCompile(`^\s*(?:repeated |optional )?(?:map<[^>]*>|[\w.]+) (\w+) = \d+`)
	noteLine  = regexp.MustCompile(`^\s*// ?(.*)$`)
)

// about has the comments of config.proto.
var about = sync.OnceValue(func() map[string]string { return commentsOf(protoFile) })

// About returns what the schema says of a field of the configuration, or "".
func About(field protoreflect.FieldDescriptor) string {
	return about()[string(field.Parent().Name())+"."+string(field.Name())]
}

// commentsOf returns the comments of a .proto file, by "Message" and "Message.field".
func commentsOf(file string) map[string]string {
	all := map[string]string{}
	var inside []string // messages; "" for a oneof, whose fields are the message's
	var note []string
	for line := range strings.Lines(file) {
		line = strings.TrimRight(line, "\n")
		if m := noteLine.FindStringSubmatch(line); m != nil {
			note = append(note, m[1])
			continue
		}
		text := strings.Join(note, " ")
		note = nil
		if m := blockLine.FindStringSubmatch(line); m != nil {
			name := m[2]
			if m[1] == "oneof" {
				name = ""
			} else {
				all[name] = text
			}
			inside = append(inside, name)
		} else if m := fieldLine.FindStringSubmatch(line); m != nil {
			all[ownerOf(inside)+"."+m[1]] = text
		} else if strings.TrimSpace(line) == "}" && len(inside) > 0 {
			inside = inside[:len(inside)-1]
		}
	}
	return all
}

// ownerOf returns the innermost message.
func ownerOf(inside []string) string {
	for _, name := range slices.Backward(inside) {
		if name != "" {
			return name
		}
	}
	return ""
}

// AboutMessage returns what the schema says of a message of the configuration, or "".
func AboutMessage(m protoreflect.MessageDescriptor) string { return about()[string(m.Name())] }
