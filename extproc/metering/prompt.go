package metering

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/internal/tokens"
)

// A prompt is a sample of a request's text.
type prompt struct {
	text   tokens.Sample // as JSON, with separators
	chat   int64         // 1 if there are messages
	counts struct{ texts, messages, names, images, media int64 }
}

// perImage is the number of tokens per image in two recorded answers. The real number depends on the image.
const perImage = 425

func (p *prompt) add(s []byte) {
	if len(s) > 0 {
		p.text.Add(s)
		p.text.Add([]byte(tokens.Separator))
		p.counts.texts++
	}
}

func (p *prompt) count(vendor, model string) int64 {
	f, c := tokens.FramingOf(vendor, model), &p.counts
	text := max(0, p.text.CountJSON(vendor, model)-c.texts)
	return text + p.chat*f.Chat + c.messages*f.Message + c.names*f.Name + c.images*perImage + c.media
}

// Bounds on the tools that are read, because they are read level by level.
const (
	maxDeclared = 256 << 10
	maxTypes    = 32
	// maxLost is how much longer the JSON of tools is than their types, at most.
	maxLost = 4
)

// declare adds the tools of the request in the format in which OpenAI gives them to the model: as TypeScript types, as
// its models report when asked.
func (p *prompt) declare(tools gjson.Result) {
	if len(tools.Raw) > maxDeclared {
		p.raw([]byte(tools.Raw))
		return
	}
	var b strings.Builder
	b.WriteString("# Tools\n\n## functions\n\nnamespace functions {\n\n")
	known := true
	tools.ForEach(func(_, tool gjson.Result) bool {
		f := either(tool.Get("function"), tool)
		known = known && f.Get("parameters").Exists()
		comment(&b, f)
		b.WriteString("type " + f.Get("name").Str + " = (")
		if parameters := f.Get("parameters"); parameters.Get("properties").Exists() {
			b.WriteString("_: ")
			typeOf(&b, parameters, maxTypes)
		}
		b.WriteString(") => any;\n\n")
		return true
	})
	b.WriteString("} // namespace functions")
	if !known || b.Len() < len(tools.Raw)/maxLost { // tools of another form
		p.raw([]byte(tools.Raw))
		return
	}
	p.add([]byte(b.String()))
}

func comment(b *strings.Builder, v gjson.Result) {
	if d := v.Get("description").Str; d != "" {
		b.WriteString("// " + d + "\n")
	}
}

// typeOf writes the type of a schema, down to depth levels.
func typeOf(b *strings.Builder, schema gjson.Result, depth int) {
	if depth == 0 {
		b.WriteString("any")
		return
	}
	properties, values := schema.Get("properties"), schema.Get("enum")
	switch {
	case properties.IsObject():
		b.WriteString("{\n")
		required := map[string]bool{}
		schema.Get("required").ForEach(func(_, name gjson.Result) bool {
			required[name.Raw] = true
			return true
		})
		properties.ForEach(func(name, property gjson.Result) bool {
			comment(b, property)
			b.WriteString(name.Str)
			if !required[name.Raw] {
				b.WriteByte('?')
			}
			b.WriteString(": ")
			typeOf(b, property, depth-1)
			b.WriteString(",\n")
			return true
		})
		b.WriteByte('}')
	case values.IsArray():
		for i, v := range values.Array() {
			if i > 0 {
				b.WriteString(" | ")
			}
			b.WriteString(v.Raw)
		}
	case schema.Get("items").IsObject():
		typeOf(b, schema.Get("items"), depth-1)
		b.WriteString("[]")
	default:
		b.WriteString(schema.Get("type").String())
	}
}

func either(a, b gjson.Result) gjson.Result {
	if a.Exists() {
		return a
	}
	return b
}
