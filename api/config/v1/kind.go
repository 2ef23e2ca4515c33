package configv1

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/modelgate/modelgate/api/config/options"
)

// An Object is a stored message: see [Kinds].
type Object interface {
	proto.Message
	GetName() string
}

// A Kind describes a kind of object for the store, the admin API and the command line. What it is beyond its name, the
// message states by options.
type Kind struct {
	// Name is the value of "kind:" in a YAML document, such as Provider.
	Name string
	// Plural is the kind in paths, such as providers.
	Plural string
	// New returns an empty object of the kind.
	New func() Object
	// Options are the message's other options.
	Options *options.Kind
}

// Kinds returns the stored kinds, in the order for display.
func Kinds() []Kind { return slices.Clone(kinds()) }

// kinds are the messages that have the option.
var kinds = sync.OnceValue(func() []Kind {
	var all []Kind
	messages := File_api_config_v1_config_proto.Messages()
	for i := range messages.Len() {
		if o := options.KindOf(messages.Get(i)); o != nil {
			all = append(all, newKind(messages.Get(i), o))
		}
	}
	slices.SortFunc(all, func(a, b Kind) int { return cmp.Compare(a.Options.GetPlace(), b.Options.GetPlace()) })
	return all
})

func newKind(m protoreflect.MessageDescriptor, o *options.Kind) Kind {
	goType, err := protoregistry.GlobalTypes.FindMessageByName(m.FullName())
	if err != nil {
		panic(err) // the generated code registers it
	}
	return Kind{
		Name: string(m.Name()), Plural: o.GetPlural(), Options: o,
		New: func() Object { return goType.New().Interface().(Object) },
	}
}

func nameOf(o Object) string { return string(o.ProtoReflect().Descriptor().Name()) }

// Area returns the word with which the scopes for the kind begin: config, keys or admins.
func (k Kind) Area() string { return cmp.Or(k.Options.GetArea(), "config") }

// KindOf returns the kind of an object, which may be a nil pointer of its type. For a message that is not stored it
// returns the zero Kind.
func KindOf(o Object) Kind {
	name := nameOf(o)
	if i := slices.IndexFunc(kinds(), func(k Kind) bool { return k.Name == name }); i >= 0 {
		return kinds()[i]
	}
	return Kind{}
}

// DisplayName returns the name of an object for people. Empty: it has none.
func DisplayName(o Object) string {
	if named, ok := o.(interface{ GetDisplayName() string }); ok {
		return named.GetDisplayName()
	}
	return ""
}

// KeyKind returns the kind of keys, which many packages treat separately.
func KeyKind() Kind { return KindOf((*Key)(nil)) }

// FindKind returns the kind with a name or plural, in any case.
func FindKind(s string) (Kind, bool) {
	for _, k := range kinds() {
		if strings.EqualFold(s, k.Name) || strings.EqualFold(s, k.Plural) {
			return k, true
		}
	}
	return Kind{}, false
}

// KindNames returns the names of all kinds as "A, B and C", for messages.
func KindNames() string {
	var names []string
	for _, k := range kinds() {
		names = append(names, k.Name)
	}
	return listing(names)
}

// Label names an object for people: its kind and name.
func Label(o Object) string { return nameOf(o) + " " + o.GetName() }

// Unmarshal reads an object in the form of [Marshal]. It refuses unknown and duplicate fields. The error has no value
// of a field.
func (k Kind) Unmarshal(data []byte) (Object, error) {
	o := k.New()
	if err := protojson.Unmarshal(data, o); err == nil {
		return o, nil
	}
	// protojson's own error may show a secret. The slower reader has better messages without values.
	if _, err := k.ParseJSON(data); err != nil {
		return nil, err
	}
	return nil, Errors{{Object: k.Name, Message: "has members that are not fields"}}
}

// listing joins words as "a, b and c".
func listing(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}
