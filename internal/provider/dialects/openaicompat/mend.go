package openaicompat

import "github.com/modelgate/modelgate/internal/jsonwalk"

// noMessage is the message of a choice that has none: Azure's filter takes the whole of it.
const noMessage = `{"role":"assistant","content":null,"refusal":null}`

// mend gives every choice that lacks it a member that is an object. OpenAI's SDKs read a choice's message, and a
// chunk's delta, without a check.
func (p *patch) mend(choices span, member, value string) {
	if kindOf(choices.value(p.data)) != '[' {
		return
	}
	jsonwalk.Array(p.data, choices.start, func(start int) (end int) {
		if p.data[start] != '{' {
			return jsonwalk.Value(p.data, start)
		}
		var there span
		comma := ""
		end = jsonwalk.Object(p.data, start, func(name, nameEnd, start int) int {
			comma = ","
			end := jsonwalk.Value(p.data, start)
			if string(p.data[name+1:nameEnd-1]) == member {
				there = span{start: start, end: end}
			}
			return end
		})
		if kindOf(there.value(p.data)) != '{' {
			p.set(there, end-1, comma+`"`+member+`":`, value)
		}
		return end
	})
}

// mendChunk repairs chunks on which OpenAI's SDKs fail, and which otherwise pass as they came. Azure's events with
// its filter's results have no delta, or no kind.
func (s *stream) mendChunk() {
	r, p := &s.read, &s.passed.patch
	for i := range r.choices {
		if r.choices[i].data != nil && r.choices[i].said.data == nil {
			p.mend(r.members.choices, "delta", "{}")
			break
		}
	}
	if string(r.object.value(r.data)) == `""` {
		p.set(r.object, 0, "", s.shape.chunk)
	}
}
