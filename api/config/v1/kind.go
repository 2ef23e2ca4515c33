package configv1

import (
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// An Object is a stored message: see [Kinds].
type Object interface {
	proto.Message
	GetName() string
}

// A Kind describes a kind of object for the store, the admin API and the command line.
type Kind struct {
	// Name is the value of "kind:" in a YAML document, such as Provider.
	Name string
	// Plural is the kind in paths, such as providers.
	Plural string
	// New returns an empty object of the kind.
	New func() Object

	validate func(*validator, Object)
}

// Kinds returns the stored kinds, in the order for display.
func Kinds() []Kind {
	return []Kind{
		newKind("providers", (*validator).provider),
		newKind("models", (*validator).model),
		newKind("keys", (*validator).key),
		newKind("gateways", (*validator).gateway),
		newKind("certificates", (*validator).certificate),
		newKind("routes", (*validator).route),
		newKind("catalogs", (*validator).catalog),
		newKind("jobservices", (*validator).jobService),
		newKind("webhooks", (*validator).webhook),
		newKind("listings", (*validator).listing),
		newKind("organizations", (*validator).organization),
		newKind("projects", (*validator).project),
		newKind("ratelimits", (*validator).rateLimit),
		newKind("guardrails", (*validator).guardrail),
		newKind("checkers", (*validator).checker),
		newKind("policies", (*validator).policy),
		newKind("responsecaches", (*validator).responseCache),
		newKind("accounts", (*validator).account),
		newKind("admintokens", (*validator).adminToken),
		newKind("identityproviders", (*validator).identityProvider),
		newKind("identitygroups", (*validator).identityGroup),
		newKind("tokenissuers", (*validator).tokenIssuer),
		newKind("certificateissuers", (*validator).certificateIssuer),
		newKind("retentions", (*validator).retention),
		newKind("approvalrules", (*validator).approvalRule),
		newKind("alertrules", (*validator).alertRule),
		newKind("alertreceivers", (*validator).alertReceiver),
		newKind("auditsinks", (*validator).auditSink),
	}
}

func newKind[M any, P interface {
	*M
	Object
}](plural string, validate func(*validator, P)) Kind {
	return Kind{
		Name:     nameOf(P(nil)),
		Plural:   plural,
		New:      func() Object { return P(new(M)) },
		validate: func(v *validator, o Object) { validate(v, o.(P)) },
	}
}

func nameOf(o Object) string { return string(o.ProtoReflect().Descriptor().Name()) }

// KindOf returns the kind of an object, which may be a nil pointer of its type. For a message that is not stored it
// returns the zero Kind.
func KindOf(o Object) Kind {
	name := nameOf(o)
	for _, k := range Kinds() {
		if k.Name == name {
			return k
		}
	}
	return Kind{}
}

// KeyKind returns the kind of keys, which many packages treat separately.
func KeyKind() Kind { return KindOf((*Key)(nil)) }

// FindKind returns the kind with a name or plural, in any case.
func FindKind(s string) (Kind, bool) {
	for _, k := range Kinds() {
		if strings.EqualFold(s, k.Name) || strings.EqualFold(s, k.Plural) {
			return k, true
		}
	}
	return Kind{}, false
}

// KindNames returns the names of all kinds as "A, B and C", for messages.
func KindNames() string {
	var names []string
	for _, k := range Kinds() {
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
