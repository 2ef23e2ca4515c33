package respcache

import (
	"bytes"
	"hash"
	"slices"
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/inbound/compose"
	"github.com/modelgate/modelgate/internal/jsonwalk"
	"github.com/modelgate/modelgate/internal/offered"
)

// Reasons why the answer to a request is not kept.
const (
	ReasonTemperature = "temperature"
	ReasonTools       = "tools"
	ReasonStored      = "'store'"
)

// defaultTemperature is that of a request without one, by the documentation of OpenAI, Anthropic and Google.
const defaultTemperature = 1

// Refuses returns why the answer to a request is not kept, or "". The body is valid JSON: an object. Sampled is
// whether the answer is a model's text.
func (c *Cache) Refuses(body []byte, sampled bool) (reason string) {
	temperature := float64(defaultTemperature)
	jsonwalk.Object(body, jsonwalk.Between(body, 0), func(name, nameEnd, start int) int {
		end := jsonwalk.Value(body, start)
		value := body[start:end]
		switch openai.Unquote(body[name:nameEnd]) {
		case "store": // the provider keeps the answer, which a second time would not happen
			if string(value) == "true" {
				reason = ReasonStored
			}
		case "temperature":
			temperature = number(value)
		case "generationConfig", "generation_config":
			if said := gjson.GetBytes(value, "temperature"); said.Exists() {
				temperature = said.Num
			}
		}
		return end
	})
	if l := offered.Read(body); l != nil && len(l.Tools) > 0 && !c.config.GetTools() {
		return ReasonTools
	}
	if reason == "" && sampled && temperature > c.config.GetMaxTemperature() {
		return ReasonTemperature
	}
	return reason
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
func canonical(body []byte, to hash.Hash) {
	type member struct{ name, value []byte }
	var members []member
	jsonwalk.Object(body, jsonwalk.Between(body, 0), func(name, nameEnd, start int) int {
		end := jsonwalk.Value(body, start)
		members = append(members, member{body[name:nameEnd], body[start:end]})
		return end
	})
	slices.SortStableFunc(members, func(a, b member) int { return bytes.Compare(a.name, b.name) })
	for _, m := range members {
		write(to, m.name)
		if string(m.name) == `"system"` && bytes.Contains(m.value, []byte(compose.Billing)) {
			prompt(gjson.ParseBytes(m.value), to)
			continue
		}
		write(to, m.value)
	}
}

// prompt writes the system prompt of a Messages request without what no answer depends on.
func prompt(system gjson.Result, to hash.Hash) {
	if system.Type == gjson.String {
		write(to, []byte(compose.WithoutBilling(system.Str)))
		return
	}
	system.ForEach(func(_, block gjson.Result) bool {
		text := block.Get("text").Str
		rest := compose.WithoutBilling(text)
		switch {
		case rest == text:
			write(to, []byte(block.Raw))
		case rest != "":
			write(to, []byte(rest))
		}
		return true
	})
}
