package openai

import "github.com/go-json-experiment/json/jsontext"

// decodeChat decodes a body that ParseChatRequest has checked, with that number of messages.
func decodeChat(body []byte, messages int, by Carrier) (*Chat, error) {
	c := &Chat{Messages: make([]Message, 0, messages)}
	d := &decoder{cursor: cursor{data: body}}
	d.strings.Grow(len(body))
	for name := range d.members {
		if read := chatMembers[string(name)]; read != nil {
			read(d, c)
		} else {
			d.value()
		}
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	c.splitIDs(by, len(body))
	return c, nil
}

// chatMembers read the members of a chat completion request.
var chatMembers = map[string]func(d *decoder, c *Chat){
	"messages":              func(d *decoder, c *Chat) { list(d, &c.Messages, d.message) },
	"max_tokens":            func(d *decoder, c *Chat) { d.int(&c.MaxTokens) },
	"max_completion_tokens": func(d *decoder, c *Chat) { d.int(&c.MaxCompletionTokens) },
	"temperature":           func(d *decoder, c *Chat) { d.float(&c.Temperature) },
	"top_p":                 func(d *decoder, c *Chat) { d.float(&c.TopP) },
	"frequency_penalty":     func(d *decoder, c *Chat) { d.float(&c.FrequencyPenalty) },
	"presence_penalty":      func(d *decoder, c *Chat) { d.float(&c.PresencePenalty) },
	"n":                     func(d *decoder, c *Chat) { d.int(&c.N) },
	"stop":                  func(d *decoder, c *Chat) { d.stringOrStrings(&c.Stop) },
	"seed":                  func(d *decoder, c *Chat) { d.int(&c.Seed) },
	"logit_bias":            func(d *decoder, c *Chat) { d.raw(&c.LogitBias) },
	"logprobs":              func(d *decoder, c *Chat) { d.bool(&c.Logprobs) },
	"top_logprobs":          func(d *decoder, c *Chat) { d.int(&c.TopLogprobs) },
	"modalities":            func(d *decoder, c *Chat) { list(d, &c.Modalities, d.string) },
	"audio":                 func(d *decoder, c *Chat) { d.raw(&c.Audio) },
	"response_format":       func(d *decoder, c *Chat) { optional(d, &c.ResponseFormat, d.responseFormat) },
	"tools":                 func(d *decoder, c *Chat) { list(d, &c.Tools, d.tool) },
	"tool_choice":           func(d *decoder, c *Chat) { d.toolChoice(&c.ToolChoice) },
	"parallel_tool_calls":   func(d *decoder, c *Chat) { d.bool(&c.ParallelToolCalls) },
	"reasoning_effort":      func(d *decoder, c *Chat) { d.string(&c.ReasoningEffort) },
	"verbosity":             func(d *decoder, c *Chat) { d.string(&c.Verbosity) },
	"user":                  func(d *decoder, c *Chat) { d.string(&c.User) },
	"safety_identifier":     func(d *decoder, c *Chat) { d.string(&c.SafetyIdentifier) },
	"service_tier":          func(d *decoder, c *Chat) { d.string(&c.ServiceTier) },
	"prediction":            func(d *decoder, c *Chat) { d.raw(&c.Prediction) },
	"metadata":              func(d *decoder, c *Chat) { d.raw(&c.Metadata) },
	"store":                 func(d *decoder, c *Chat) { d.bool(&c.Store) },
	"web_search_options":    func(d *decoder, c *Chat) { d.raw(&c.WebSearchOptions) },
	"functions":             func(d *decoder, c *Chat) { d.raw(&c.Functions) },
	"function_call":         func(d *decoder, c *Chat) { d.raw(&c.FunctionCall) },
	"thinking":              func(d *decoder, c *Chat) { d.raw(&c.Thinking) },
	"top_k":                 func(d *decoder, c *Chat) { d.int(&c.TopK) },
}

func (d *decoder) message(m *Message) {
	for name := range d.members {
		switch string(name) {
		case "role":
			d.label(&m.Role)
		case "content":
			d.content(&m.Content)
		case "name":
			d.string(&m.Name)
		case "refusal":
			d.string(&m.Refusal)
		case "tool_calls":
			list(d, &m.ToolCalls, d.toolCall)
		case "tool_call_id":
			d.string(&m.ToolCallID)
		case "function_call":
			optional(d, &m.FunctionCall, d.functionCall)
		case "audio":
			d.raw(&m.Audio)
		case "cache_control":
			d.raw(&m.CacheControl)
		case "reasoning_content":
			d.string(&m.ReasoningContent)
		case "thinking_blocks":
			d.raw(&m.ThinkingBlocks)
		default:
			d.value()
		}
	}
}

// content reads a string, which becomes one text part, or an array of parts.
func (d *decoder) content(c *Content) {
	if d.peek() != '"' {
		list(d, (*[]Part)(c), d.part)
		return
	}
	*c = Content{{Type: "text"}}
	d.string(&(*c)[0].Text)
}

func (d *decoder) part(p *Part) {
	d.peek()
	start, thinks := d.at, false
	for name := range d.members {
		switch string(name) {
		case "type":
			d.label(&p.Type)
		case "text":
			d.string(&p.Text)
		case "refusal":
			d.string(&p.Refusal)
		case "image_url":
			optionalOrText(d, &p.ImageURL, d.imageURL, func(u *ImageURL) *string { return &u.URL })
		case "input_audio":
			optionalOrText(d, &p.InputAudio, d.inputAudio, func(a *InputAudio) *string { return &a.Data })
		case "file":
			optional(d, &p.File, d.file)
		case "cache_control":
			d.raw(&p.CacheControl)
		case "thinking":
			thinks = d.peek() == '"'
			d.value()
		default:
			d.value()
		}
	}
	if p.Type == "redacted_thinking" || thinks && p.Type == "thinking" {
		p.Thought = d.data[start:d.at]
	}
}

func (d *decoder) imageURL(u *ImageURL) {
	for name := range d.members {
		switch string(name) {
		case "url":
			d.string(&u.URL)
		case "detail":
			d.label(&u.Detail)
		default:
			d.value()
		}
	}
}

func (d *decoder) inputAudio(a *InputAudio) {
	for name := range d.members {
		switch string(name) {
		case "data":
			d.string(&a.Data)
		case "format":
			d.label(&a.Format)
		default:
			d.value()
		}
	}
}

func (d *decoder) file(f *File) {
	for name := range d.members {
		switch string(name) {
		case "file_id":
			d.string(&f.FileID)
		case "filename":
			d.string(&f.Filename)
		case "file_data":
			d.string(&f.FileData)
		default:
			d.value()
		}
	}
}

func (d *decoder) toolCall(t *ToolCall) {
	for name := range d.members {
		switch string(name) {
		case "id":
			d.string(&t.ID)
		case "type":
			d.label(&t.Type)
		case "function":
			d.functionCall(&t.Function)
		case "extra_content":
			d.raw(&t.ExtraContent)
		default:
			d.value()
		}
	}
}

func (d *decoder) functionCall(f *FunctionCall) {
	for name := range d.members {
		switch string(name) {
		case "name":
			d.ownString(&f.Name)
		case "arguments":
			d.string(&f.Arguments)
		default:
			d.value()
		}
	}
}

func (d *decoder) tool(t *Tool) {
	for name := range d.members {
		switch string(name) {
		case "type":
			d.label(&t.Type)
		case "function":
			d.function(&t.Function, &t.CacheControl)
		case "cache_control":
			d.raw(&t.CacheControl)
		default:
			d.value()
		}
	}
}

// function reads a function, and the cache_control of its tool, which some clients put into the function.
func (d *decoder) function(f *Function, cache *jsontext.Value) {
	for name := range d.members {
		switch string(name) {
		case "name":
			d.ownString(&f.Name)
		case "description":
			d.string(&f.Description)
		case "parameters":
			d.raw(&f.Parameters)
		case "strict":
			d.bool(&f.Strict)
		case "cache_control":
			d.raw(cache)
		default:
			d.value()
		}
	}
}

func (d *decoder) responseFormat(f *ResponseFormat) {
	for name := range d.members {
		switch string(name) {
		case "type":
			d.label(&f.Type)
		case "json_schema":
			optional(d, &f.JSONSchema, d.jsonSchema)
		default:
			d.value()
		}
	}
}

func (d *decoder) jsonSchema(s *JSONSchema) {
	for name := range d.members {
		switch string(name) {
		case "name":
			d.ownString(&s.Name)
		case "description":
			d.string(&s.Description)
		case "strict":
			d.bool(&s.Strict)
		case "schema":
			d.raw(&s.Schema)
		default:
			d.value()
		}
	}
}

// toolChoice reads the string or the object form.
func (d *decoder) toolChoice(to **ToolChoice) {
	if d.peek() == '"' {
		*to = new(ToolChoice)
		d.label(&(*to).Mode)
		return
	}
	optional(d, to, d.toolChoiceObject)
}

func (d *decoder) toolChoiceObject(t *ToolChoice) {
	var function, custom named
	var allowed allowedTools
	for name := range d.members {
		switch string(name) {
		case "type":
			d.label(&t.Mode)
		case "function":
			d.named(&function)
		case "custom":
			d.named(&custom)
		case "allowed_tools":
			d.allowedTools(&allowed)
		default:
			d.value()
		}
	}
	if t.Mode == "allowed_tools" {
		t.Mode = allowed.mode
		for _, f := range allowed.tools {
			t.Allowed = append(t.Allowed, string(f))
		}
		return
	}
	t.Name = string(function + custom)
}

// A named is an object. Only its name is read.
type named string

func (d *decoder) named(n *named) {
	for name := range d.members {
		if string(name) == "name" {
			d.ownString((*string)(n))
		} else {
			d.value()
		}
	}
}

type allowedTools struct {
	mode  string
	tools []named
}

func (d *decoder) allowedTools(a *allowedTools) {
	for name := range d.members {
		switch string(name) {
		case "mode":
			d.label(&a.mode)
		case "tools":
			list(d, &a.tools, d.allowedTool)
		default:
			d.value()
		}
	}
}

func (d *decoder) allowedTool(f *named) {
	for name := range d.members {
		if string(name) == "function" {
			d.named(f)
		} else {
			d.value()
		}
	}
}
