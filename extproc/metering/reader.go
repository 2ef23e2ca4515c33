package metering

import (
	"bytes"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/internal/jsonwalk"
)

// A promptReader reads the JSON body of a request to a vendor, of any dialect. Everything in it is text that the model
// reads, whatever its members are called, except for what is known to be none. So a member that nobody knows counts.
type promptReader struct {
	*prompt

	data []byte
	at   int
}

// read reads a body. If it is malformed, reading ends early.
func (p *prompt) read(body []byte) {
	r := promptReader{prompt: p, data: body}
	if r.peek() == '{' {
		r.object(1)
	}
}

// structure are the members in which the objects of a conversation lie. What lies in another member is text as a
// whole: its names and numbers too, as in the arguments of a tool.
var structure = setOf("messages", "contents", "content", "parts", "system", "systemInstruction", "system_instruction",
	"tool_calls", "toolCalls", "function", "function_call", "functionCall", "function_response", "functionResponse",
	"tool_use", "toolUse", "tool_result", "toolResult", "image_url", "source", "inline_data", "inlineData", "file_data",
	"fileData", "file", "image", "document", "video", "audio", "input_audio", "generateContentRequest",
	"generate_content_request")

// above are members that have the structure of a conversation only in the request itself.
var above = setOf("input", "prompt", "instructions")

// settings are members of the request itself that the model does not read.
var settings = setOf("metadata", "stop", "stop_sequences", "logit_bias", "tool_choice", "user", "prompt_cache_key",
	"safety_settings", "safetySettings", "inferenceConfig", "include", "model", "safety_identifier")

// schemas are members of the request itself that are settings, unless they have a schema.
var schemas = setOf("response_format", "text", "generationConfig", "generation_config", "additionalModelRequestFields")

// controls are members of a conversation with short texts that the model does not read.
var controls = setOf("type", "role", "id", "call_id", "tool_call_id", "tool_use_id", "toolUseId", "detail", "format",
	"mime_type", "mimeType", "media_type", "mediaType", "status", "object", "model", "phase", "cache_control",
	"filename", "displayName", "display_name", "execution")

// sealed are members with what only a vendor reads.
var sealed = setOf("signature", "thoughtSignature", "thought_signature", "encrypted_content")

const (
	// maxControl is how long the value of a control is, and of a setting that nobody knows.
	maxControl = 64
	// maxSettings is how long settings are that have no schema.
	maxSettings = 256
)

func setOf(names ...string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

// peek returns the first byte of the next token, or 0 at the end.
func (r *promptReader) peek() byte {
	for ; r.at < len(r.data); r.at++ {
		switch c := r.data[r.at]; c {
		case ' ', '\t', '\r', '\n', ',', ':':
		default:
			return c
		}
	}
	return 0
}

// string returns the string at the position, without its quotes and still escaped.
func (r *promptReader) string() []byte {
	start := r.at + 1
	r.at = min(jsonwalk.String(r.data, r.at), len(r.data))
	end := r.at
	if end > start && r.data[end-1] == '"' {
		end--
	}
	return r.data[start:end]
}

// skip returns the value at the position.
func (r *promptReader) skip() []byte {
	start, depth := r.at, 0
	for r.at < len(r.data) {
		switch r.data[r.at] {
		case '"':
			r.at = min(jsonwalk.String(r.data, r.at), len(r.data))
		case '{', '[':
			depth++
			r.at++
		case '}', ']', ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return r.data[start:r.at]
			}
			if c := r.data[r.at]; c == '}' || c == ']' {
				depth--
			}
			r.at++
		default:
			r.at++
			continue
		}
		if depth == 0 {
			return r.data[start:r.at]
		}
	}
	return r.data[start:]
}

// object reads an object of the conversation, or of the request itself, whose depth is 1.
func (r *promptReader) object(depth int) {
	start := r.at
	r.at++
	for {
		switch r.peek() {
		case '"':
		case '}':
			r.at++
			return
		default:
			r.at = len(r.data)
			return
		}
		name := nameOf(r.string())
		r.peek()
		if depth == 1 {
			r.ofRequest(name)
		} else {
			r.member(name, start, depth)
		}
	}
}

// nameOf returns the name of a member without its escapes.
func nameOf(s []byte) []byte {
	if bytes.IndexByte(s, '\\') < 0 {
		return s
	}
	return []byte(gjson.Parse(`"` + string(s) + `"`).Str)
}

// ofRequest reads a member of the request itself.
func (r *promptReader) ofRequest(name []byte) {
	switch {
	case structure[string(name)], above[string(name)]:
		switch string(name) {
		case "messages", "contents", "generateContentRequest", "generate_content_request":
			r.chat = 1
		}
		r.value(name, r.at, 1)
	case settings[string(name)], sealed[string(name)]:
		r.skip()
	case string(name) == "tools" || string(name) == "functions":
		r.declare(gjson.ParseBytes(r.skip()))
	case schemas[string(name)]:
		value := r.skip()
		v := gjson.ParseBytes(value)
		if s := either(v.Get("json_schema"), v.Get("format.schema")); s.Exists() {
			r.raw([]byte(s.Raw))
		} else if len(value) > maxSettings {
			r.raw(value)
		}
	default:
		if value := r.skip(); len(value) > maxControl {
			r.raw(value)
		}
	}
}

// member reads a member of an object that begins at a position.
func (r *promptReader) member(name []byte, object, depth int) {
	if string(name) == "role" {
		r.counts.messages++
	}
	if structure[string(name)] {
		r.value(name, object, depth)
		return
	}
	if c := r.peek(); c == '"' {
		r.take(name, r.string(), object, depth)
		return
	} else if c == '[' && (string(name) == "output" || string(name) == "summary") { // parts, as of a content
		r.value(name, object, depth)
		return
	}
	if value := r.skip(); len(value) > maxControl {
		r.add(name)
		r.raw(value)
	} else if len(value) > 0 && (value[0] == '{' || value[0] == '[') && !controls[string(name)] {
		r.add(name)
		r.raw(value)
	}
}

// value reads a value with the structure of a conversation.
func (r *promptReader) value(name []byte, object, depth int) {
	switch c := r.peek(); c {
	case '{':
		r.object(depth + 1)
	case '[':
		for r.at++; ; {
			switch r.peek() {
			case ']':
				r.at++
				return
			case 0:
				return
			}
			r.value(name, object, depth+1)
		}
	case '"':
		r.take(name, r.string(), object, depth)
	case '}', ']', 0:
		r.at = len(r.data) // malformed
	default:
		if value := r.skip(); above[string(name)] && value[0] >= '0' && value[0] <= '9' {
			r.counts.media++ // a token of the prompt, by its number
		} else if len(value) == 0 {
			r.at = len(r.data)
		}
	}
}

// take adds a string of a member.
func (r *promptReader) take(name []byte, s []byte, object, depth int) {
	switch {
	case sealed[string(name)], controls[string(name)] && len(s) <= maxControl:
		return
	case string(name) == "file_id" && len(s) <= maxControl:
		r.counts.media += mediaTokens
		return
	case linked[string(name)] && isLink(s):
		r.counts.images++
		return
	case media[string(name)]:
		kind := mediaOf(s)
		if kind != notMedia && string(name) == "data" {
			of := promptReader{data: r.data, at: object}
			if gjson.GetBytes(of.skip(), "type").Str == "text" {
				kind = notMedia
			}
		}
		if kind != notMedia {
			r.counts.media += kind.tokens(len(s))
			return
		}
	case string(name) == "name" && depth == 3:
		r.counts.names++
	}
	r.add(s)
}

// raw adds JSON that the model reads as it is. Its media are none: nobody knows which.
func (p *prompt) raw(value []byte) { p.add(value) }

// linked are members with the address of an image or a file.
var linked = setOf("url", "image_url", "fileUri", "file_uri", "file_url")

// isLink reports whether a string is the address of an image or a file, which is not read as a text.
func isLink(s []byte) bool {
	if len(s) > dataRun {
		return false
	}
	for _, scheme := range [...]string{"https:", "http:", "gs:", "s3:", "data:"} {
		if bytes.HasPrefix(s, []byte(scheme)) {
			return true
		}
	}
	return false
}
