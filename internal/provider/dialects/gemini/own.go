package gemini

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/internal/provider/schema"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

// What the vendor knows beyond OpenAI's parameters clients send as members of the request, or as Google's
// OpenAI-compatible endpoint has them, within "google", perhaps within "extra_body"; in camel case or with
// underscores.

// ownNames are the members of the vendor's own.
var ownNames = []string{
	"safetySettings", "cachedContent", "labels", "modelArmorConfig", "generationConfig", "topK", "thinkingConfig",
	"responseModalities", "mediaResolution", "speechConfig", "imageConfig", "audioTimestamp", "routingConfig",
}

func isOwn(name string) bool { return slices.Contains(ownNames, camelCase(name)) }

// readOthers finds what the client sent that is not OpenAI's: the vendor's own, and what nobody knows.
func (e *encoder) readOthers() {
	gjson.ParseBytes(e.body.Body).ForEach(func(name, v gjson.Result) bool {
		switch {
		case slices.Contains(known, name.Str), v.Type == gjson.False:
		case name.Str == "google":
			e.collect(schema.Members(jsontext.Value(v.Raw)), "google.")
		case name.Str == "extra_body":
			members := schema.Members(jsontext.Value(v.Raw))
			e.collect(schema.Members(schema.Find(members, "google")), "extra_body.google.")
			e.collect(schema.Without(members, "google"), "extra_body.")
		default:
			e.collect([]schema.Member{{Name: name.Str, Value: jsontext.Value(v.Raw)}}, "")
		}
		return true
	})
}

// collect sorts members that stand within a path.
func (e *encoder) collect(members []schema.Member, within string) {
	for _, m := range members {
		switch {
		case !turns.Asked(m.Value):
		case !isOwn(m.Name):
			e.unknown = append(e.unknown, schema.Member{Name: within + headerName(m.Name), Value: m.Value})
		case camelCase(m.Name) == "generationConfig":
			for _, inner := range schema.Members(m.Value) {
				e.own = append(e.own, ownMember(inner))
			}
		default:
			e.own = append(e.own, ownMember(m))
		}
	}
}

// ownMember returns a member as the vendor writes it.
func ownMember(m schema.Member) schema.Member {
	m.Name = camelCase(m.Name)
	if m.Name == "thinkingConfig" && m.Value.Kind() == '{' {
		inner := schema.Members(m.Value)
		for i := range inner {
			inner[i].Name = camelCase(inner[i].Name)
		}
		m.Value = schema.AppendObject(nil, inner)
	}
	return m
}

// headerName returns the name of a member as it can stand in a header.
func headerName(name string) string {
	if turns.Identifier(name) != name {
		return "other"
	}
	return name
}

// ownValue returns a member of the vendor's own that the client sent, or nil.
func (e *encoder) ownValue(name string) jsontext.Value { return schema.Find(e.own, name) }

// addOwn puts the vendor's own members from the client into the request, unless a member is set already.
func (e *encoder) addOwn() {
	for _, m := range e.own {
		switch m.Name {
		case "safetySettings":
			e.out.SafetySettings = m.Value
		case "cachedContent":
			e.out.CachedContent = m.Value
		case "modelArmorConfig":
			e.out.ModelArmorConfig = m.Value
		case "labels":
			e.out.Labels = m.Value
		default:
			if schema.Find(e.config, m.Name) == nil {
				e.set(m.Name, m.Value)
			}
		}
	}
}

// camelCase returns a name with underscores as the vendor writes it.
func camelCase(name string) string {
	if strings.IndexByte(name, '_') < 0 {
		return name
	}
	head, rest, _ := strings.Cut(name, "_")
	for word := range strings.SplitSeq(rest, "_") {
		if word != "" {
			head += strings.ToUpper(word[:1]) + word[1:]
		}
	}
	return head
}
