package configv1

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxDepth bounds the nesting of documents; the messages need five levels.
const maxDepth = 32

// A decoder converts a JSON tree to an object and collects all errors. Package protojson would stop at the first
// error, and its message would have the value, which may be a secret.
type decoder struct {
	object string
	errs   Errors
}

func (d *decoder) message(m protoreflect.Message, tree map[string]any, prefix string) {
	fields := m.Descriptor().Fields()
	seen := map[protoreflect.FieldNumber]bool{}
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		fd := fields.ByName(protoreflect.Name(name))
		if fd == nil {
			fd = fields.ByJSONName(name)
		}
		path := prefix + name
		switch {
		case fd == nil:
			names := fieldNames(fields)
			d.errs.add(d.object, path, "unknown field; the fields here are %s%s", listing(names), didYouMean(name, names))
		case seen[fd.Number()]:
			d.errs.add(d.object, path, "given twice, in two spellings")
		case tree[name] == nil:
		case sourceTaken(m, fd):
			d.errs.add(d.object, path, "only one of %s may be given", listing(fieldNames(fd.ContainingOneof().Fields())))
		default:
			d.field(m, fd, tree[name], path)
		}
		if fd != nil {
			seen[fd.Number()] = true
		}
	}
}

func (d *decoder) field(m protoreflect.Message, fd protoreflect.FieldDescriptor, value any, path string) {
	switch {
	case !isOurs(fd):
		d.leaf(m, fd, value, path)
	case fd.IsList():
		list, ok := value.([]any)
		if !ok {
			d.errs.add(d.object, path, "must be a list")
			return
		}
		for i, element := range list {
			at := path + "[" + strconv.Itoa(i) + "]"
			if sub, ok := element.(map[string]any); ok {
				d.message(m.Mutable(fd).List().AppendMutable().Message(), sub, at+".")
			} else {
				d.errs.add(d.object, at, "must be a mapping of fields")
			}
		}
	default:
		if sub, ok := value.(map[string]any); ok {
			d.message(m.Mutable(fd).Message(), sub, path+".")
		} else {
			d.errs.add(d.object, path, "must be a mapping of fields")
		}
	}
}

// leaf reads one field with protojson.
func (d *decoder) leaf(m protoreflect.Message, fd protoreflect.FieldDescriptor, value any, path string) {
	alone := m.New()
	data, err := json.Marshal(map[string]any{fd.JSONName(): value})
	if err == nil {
		err = protojson.Unmarshal(data, alone.Interface())
	}
	if err != nil {
		d.errs.add(d.object, path, "must be %s%s", expected(fd), similarValue(fd, value))
		return
	}
	if alone.Has(fd) {
		m.Set(fd, alone.Get(fd))
	}
}

// isOurs reports whether the field holds messages of this package, in whose fields errors can be located.
func isOurs(fd protoreflect.FieldDescriptor) bool {
	return fd.Message() != nil && !fd.IsMap() && fd.Message().ParentFile().Package() == fd.ParentFile().Package()
}

func sourceTaken(m protoreflect.Message, fd protoreflect.FieldDescriptor) bool {
	oneof := fd.ContainingOneof()
	return oneof != nil && !oneof.IsSynthetic() && m.WhichOneof(oneof) != nil
}

func fieldNames(fields protoreflect.FieldDescriptors) []string {
	var names []string
	for i := range fields.Len() {
		names = append(names, string(fields.Get(i).Name()))
	}
	return names
}

// valueNames returns the names of the values that may be written: all but the first, which means an absent one.
func valueNames(enum protoreflect.EnumDescriptor) []string {
	var names []string
	for i := 1; i < enum.Values().Len(); i++ {
		names = append(names, string(enum.Values().Get(i).Name()))
	}
	return names
}

// similarValue suggests a value of an enumeration. Of another field the written value is not looked at: it may be a
// secret.
func similarValue(fd protoreflect.FieldDescriptor, value any) string {
	written, ok := value.(string)
	if !ok || fd.Kind() != protoreflect.EnumKind {
		return ""
	}
	return didYouMean(written, valueNames(fd.Enum()))
}

// expected describes the values of a field.
func expected(fd protoreflect.FieldDescriptor) string {
	var one string
	switch fd.Kind() {
	case protoreflect.StringKind:
		one = "a string (put it in quotes)"
	case protoreflect.BoolKind:
		one = "true or false"
	case protoreflect.BytesKind:
		one = "base64"
	case protoreflect.Uint32Kind:
		one = "a whole number from 0 to 4294967295"
	case protoreflect.Int64Kind:
		one = "a whole number"
	case protoreflect.Uint64Kind:
		one = "a whole number from 0"
	case protoreflect.EnumKind:
		one = "one of " + listing(valueNames(fd.Enum()))
	case protoreflect.MessageKind:
		one = wellKnown(fd)
	default:
		one = fd.Kind().String()
	}
	if fd.IsList() {
		return "a list, each item " + one
	}
	return one
}

func wellKnown(fd protoreflect.FieldDescriptor) string {
	switch {
	case fd.IsMap():
		return "a mapping from names to strings"
	case fd.Message().Name() == "Duration":
		return `seconds with an "s", such as 30s or 0.5s`
	default:
		return "a time such as 2030-01-31T23:59:59Z"
	}
}

// readTree reads one JSON value into maps, slices, strings, numbers and booleans. Unlike encoding/json it refuses
// duplicate members.
func readTree(data []byte) (any, error) {
	check := json.NewDecoder(bytes.NewReader(data))
	check.UseNumber()
	if err := checkValue(check, 0); err != nil {
		return nil, err
	}
	if _, err := check.Token(); err != io.EOF {
		return nil, fmt.Errorf("there is more after the end of the JSON value")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var tree any
	if err := dec.Decode(&tree); err != nil {
		return nil, err
	}
	return tree, nil
}

func checkValue(dec *json.Decoder, depth int) error {
	token, err := dec.Token()
	if err == io.EOF {
		return fmt.Errorf("the JSON value is incomplete")
	}
	if err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	open, ok := token.(json.Delim)
	if !ok {
		return nil
	}
	if depth == maxDepth {
		return fmt.Errorf("nested more than %d deep", maxDepth)
	}
	seen := map[string]bool{}
	for dec.More() {
		if open == '{' {
			name, err := dec.Token()
			if err != nil {
				return fmt.Errorf("not JSON: %w", err)
			}
			s := name.(string)
			if seen[s] {
				return fmt.Errorf("member %q is given twice", s)
			}
			seen[s] = true
		}
		if err := checkValue(dec, depth+1); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return fmt.Errorf("the JSON value is incomplete")
	}
	return nil
}

// minSimilar is the minimum length of a word, in bytes, for a suggestion.
const minSimilar = 3

// didYouMean returns "; did you mean X?" for the word most like a written one, or "" if none is like it. Case, "_" and
// "-" do not count. A third of the letters may differ.
func didYouMean(written string, words []string) string {
	plain := strings.NewReplacer("_", "", "-", "")
	letters := func(s string) string { return plain.Replace(strings.ToLower(s)) }
	wrong := letters(written)
	if len(wrong) < minSimilar || len(wrong) > maxName {
		return ""
	}
	best, least := "", len(wrong)/3+1
	for _, word := range words {
		if n := edits(wrong, letters(word)); n < least {
			best, least = word, n
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

// edits returns how many letters have to be added, removed, replaced or swapped with the next one to make b of a: the
// optimal string alignment distance.
func edits(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			replaced := last[j]
			if a[i] != b[j] {
				replaced++
			}
			row[j+1] = min(replaced, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
