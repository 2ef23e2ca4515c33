package schema

import (
	"github.com/go-json-experiment/json/jsontext"
)

// An overlaid has the members of several schemas. For each member the last schema counts, except that properties
// and required of all count.
type overlaid struct {
	members    []Member
	at         map[string]int // where in members a name stands
	properties *overlaid      // in place of the member of that name, where several have it
	required   []jsontext.Value
}

func (o *overlaid) add(members []Member) {
	for _, m := range members {
		before, again := o.find(m.Name)
		switch {
		case !again:
		case m.Name == "properties":
			if o.properties == nil {
				o.properties = &overlaid{}
				o.properties.put(Members(before))
			}
			o.properties.put(Members(m.Value))
			continue
		case m.Name == "required":
			if o.required == nil {
				o.required = Elements(before)
			}
			o.required = append(o.required, Elements(m.Value)...)
			continue
		}
		o.set(m)
	}
}

// put is add where properties and required are names as any.
func (o *overlaid) put(members []Member) {
	for _, m := range members {
		o.set(m)
	}
}

func (o *overlaid) set(m Member) {
	if o.at == nil {
		o.at = map[string]int{}
	}
	if i, ok := o.at[m.Name]; ok {
		o.members[i].Value = m.Value
		return
	}
	o.at[m.Name] = len(o.members)
	o.members = append(o.members, m)
}

func (o *overlaid) find(name string) (jsontext.Value, bool) {
	if i, ok := o.at[name]; ok {
		return o.members[i].Value, true
	}
	return nil, false
}

// whole returns the members, which may be changed.
func (o *overlaid) whole() []Member {
	if o.properties != nil {
		o.members[o.at["properties"]].Value = AppendObject(nil, o.properties.members)
	}
	if o.required != nil {
		o.members[o.at["required"]].Value = AppendArray(nil, o.required)
	}
	return o.members
}
