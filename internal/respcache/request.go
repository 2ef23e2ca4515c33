package respcache

import (
	"bytes"
	"hash"
	"slices"
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/offered"
	"github.com/modelgate/modelgate/internal/provider/private"
)

// Reasons why the answer to a request is not kept.
const (
	ReasonTemperature = "temperature"
	ReasonTools       = "tools"
	ReasonStored      = "'store'"
)

// defaultTemperature is the temperature of a request without one, by the documentation of OpenAI, Anthropic
// and Google.
const defaultTemperature = 1

// Refuses returns why the answer to a request, which has the vendor do what it offers, is not kept, or "". Sampled is
// whether the answer is a model's text.
func (c *Cache) Refuses(sent *openai.Members, offers *offered.List, sampled bool) string {
	switch {
	case offers != nil && len(offers.Tools) > 0 && !c.config.GetTools():
		return ReasonTools
	case string(sent.Get("store")) == "true": // the provider keeps the answer, which a second time would not happen
		return ReasonStored
	case sampled && temperature(sent) > c.config.GetMaxTemperature():
		return ReasonTemperature
	}
	return ""
}

// temperature returns the temperature of a request, the highest one if it has several.
func temperature(sent *openai.Members) float64 {
	highest, said := 0.0, false
	if v := sent.Get("temperature"); v != nil {
		highest, said = number(v), true
	}
	for _, name := range [...]string{"generationConfig", "generation_config"} {
		if v := gjson.GetBytes(sent.Get(name), "temperature"); v.Exists() {
			highest, said = max(highest, v.Num), true
		}
	}
	if !said {
		return defaultTemperature
	}
	return highest
}

func number(value []byte) float64 {
	if n, err := strconv.ParseFloat(string(value), 64); err == nil {
		return n
	}
	return defaultTemperature
}

// canonical writes an object to a hash with its members by name, and without the white space between them. Their
// values are left as they are: vendors show some to models as texts, such as schemas, with white space and in their
// order.
func canonical(sent *openai.Members, to hash.Hash) {
	type member struct{ name, value []byte }
	var few [16]member
	members := few[:0]
	for i := 0; ; i++ {
		name, value, ok := sent.Written(i)
		if !ok {
			break
		}
		members = append(members, member{name, value})
	}
	slices.SortStableFunc(members, func(a, b member) int { return bytes.Compare(a.name, b.name) })
	for _, m := range members {
		name := string(bytes.Trim(m.name, `"`))
		if !private.Takes("", private.Member, name) {
			continue
		}
		write(to, m.name)
		switch name {
		case "system", "instructions", "systemInstruction", "system_instruction":
			if private.Mentioned(m.value) {
				m.value = appendPrompt(nil, gjson.ParseBytes(m.value), promptDepth)
			}
		case "messages", "input":
			if private.Mentioned(m.value) {
				m.value = appendTurns(nil, gjson.ParseBytes(m.value))
			}
		}
		write(to, m.value)
	}
}

// promptDepth is how deep the texts of a prompt are: parts, a part, its text.
const promptDepth = 4

// appendTurns appends the messages of a conversation, those of the system without what no answer depends on.
func appendTurns(dst []byte, list gjson.Result) []byte {
	list.ForEach(func(_, message gjson.Result) bool {
		dst = append(dst, ',')
		switch message.Get("role").Str {
		case "system", "developer":
			dst = appendPrompt(dst, message, promptDepth)
		default:
			dst = append(dst, message.Raw...)
		}
		return true
	})
	return dst
}

// appendPrompt appends a prompt of the system without what no answer depends on.
func appendPrompt(dst []byte, v gjson.Result, depth int) []byte {
	switch {
	case v.Type == gjson.String:
		if rest := private.Prompt(v.Str, ""); rest != v.Str {
			return openai.AppendString(dst, rest)
		}
	case v.Type == gjson.JSON && depth > 0:
		dst = append(dst, v.Raw[0])
		v.ForEach(func(name, inner gjson.Result) bool {
			dst = append(append(dst, ','), name.Raw...)
			dst = appendPrompt(append(dst, ':'), inner, depth-1)
			return true
		})
		return append(dst, v.Raw[len(v.Raw)-1])
	}
	return append(dst, v.Raw...)
}
