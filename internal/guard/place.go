package guard

import "strings"

// A kind of place decides what of a string is harmless, and what stands there if a rule masks a text in it.
type placeKind uint8

const (
	// A placeholder can stand in a text.
	inText placeKind = iota
	// A name of the client's: it gets a name of its own, which is the client's again in the answer.
	inName
	// What must stay as it is: a rule that would mask a text in it refuses the request.
	inFixed
	// Likewise, but a value that the APIs define is harmless.
	inChoice
	// Likewise, but what has the form of encrypted data is harmless.
	inSecret
	// The name of the model, which is harmless.
	inModel
)

// places says what stands in a member, wherever its name is. Members that are not here have texts. The arguments and
// results of calls have texts whatever their members are called.
var places = map[string]placeKind{
	"id": inName, "call_id": inName, "tool_call_id": inName, "tool_use_id": inName, "item_id": inName, "name": inName,
	"allowedFunctionNames": inName, "allowed_function_names": inName,

	"previous_response_id": inFixed, "conversation": inFixed, "file_id": inFixed, "image_url": inFixed,
	"video_url": inFixed, "url": inFixed, "file_url": inFixed, "server_url": inFixed, "fileUri": inFixed,
	"file_uri": inFixed, "cachedContent": inFixed, "cached_content": inFixed, "file_data": inText, "required": inFixed,

	"role": inChoice, "type": inChoice, "object": inChoice, "status": inChoice, "service_tier": inChoice,
	"encoding_format": inChoice, "include": inChoice, "tool_choice": inChoice, "mimeType": inChoice,
	"mime_type": inChoice, "media_type": inChoice, "ttl": inChoice, "effort": inChoice, "reasoning_effort": inChoice,
	"verbosity": inChoice, "detail": inChoice, "truncation": inChoice, "mode": inChoice, "phase": inChoice,
	"finish_reason": inChoice, "stop_reason": inChoice, "modalities": inChoice,

	"encrypted_content": inSecret, "encrypted_index": inSecret, "signature": inSecret,
	"thoughtSignature": inSecret, "thought_signature": inSecret,
}

// choices are values that the APIs define for members of the kind inChoice. Others are judged.
var choices = fieldsOf(`user assistant system developer tool function model text input_text output_text image_url image
	input_image input_audio audio input_file file document tool_use tool_result thinking redacted_thinking reasoning
	summary_text reasoning_text message function_call function_call_output custom custom_tool_call
	custom_tool_call_output refusal content url base64 object string number integer boolean array null ephemeral
	json_object json_schema json grammar completed in_progress incomplete failed auto none required any default flex
	priority standard low medium high minimal xhigh max disabled enabled adaptive float stop length tool_calls
	content_filter end_turn max_tokens stop_sequence pause_turn item_reference web_search web_search_preview
	web_search_call code_interpreter file_search mcp search_result text_delta char_location page_location 5m 1h
	url_citation file_citation approximate 1.0`)

func fieldsOf(list string) map[string]bool {
	all := map[string]bool{}
	for _, v := range strings.Fields(list) {
		all[v] = true
	}
	return all
}

// freely are members that, if they are objects, have the client's own members: the arguments or the result of a call,
// or metadata.
var freely = map[string]bool{"input": true, "args": true, "response": true, "arguments": true, "metadata": true}

// definitions are members that say what a model may do. Their texts are judged, and are no texts of a conversation.
var definitions = map[string]bool{"tools": true, "functions": true, "response_format": true, "responseSchema": true,
	"response_schema": true, "responseJsonSchema": true, "response_json_schema": true, "output_config": true,
	"output_format": true, "format": true}

// A spot is where a value stands in a body.
type spot struct {
	name    string // its member's name, or the name of the member with the list that it is in
	within  string // the name of the object's own member
	depth   int    // of objects
	free    bool   // within arguments, results or metadata
	defines bool   // within definitions
}

// in returns where the value of a member of an object stands that stands at s.
func (s spot) in(name string) spot {
	child := spot{name: name, within: s.name, depth: s.depth + 1}
	child.free = s.free || freely[s.name] && s.depth > 0 && (s.depth > 1 || s.name != "input")
	child.defines = s.defines || definitions[s.name] || s.name == "text" && s.depth == 1
	return child
}

func (s spot) kind() placeKind {
	switch {
	case s.free:
		return inText
	case s.name == "model" && (s.depth == 1 || s.depth == 2 && s.within == "requests"):
		return inModel
	case s.defines && s.within == "properties":
		return inText
	}
	return places[s.name]
}

// judgesKey reports whether the name of a member may be a text of the client's: the APIs' own are short words.
func (s spot) judgesKey(name string) bool {
	if s.free || freely[s.name] && s.depth > 0 || len(name) > 40 {
		return true
	}
	if s.defines && s.name == "properties" {
		return true
	}
	digits := 0
	for i := range len(name) {
		switch c := name[i]; {
		case isDigit(c):
			if digits++; digits > 4 {
				return true
			}
		case c >= 'a' && c <= 'z', c == '_', c == '$', i > 0 && isCapital(c):
		default:
			return true
		}
	}
	return name != "" && (isDigit(name[0]) || name[0] == '_')
}

// data are the members that have data in base64, or a data URI, by the name of the object that they are in: "" is any.
var data = map[string][]string{
	"data": {"source", "inlineData", "inline_data", "input_audio", "audio"}, "file_data": {""}, "b64_json": {""},
	"image_url": {""}, "url": {"image_url", "video_url", "source", "images"}, "video_url": {""}, "file_url": {""},
	"result": {"input", "output"}, "partial_image_b64": {""}, "embedding": {"data"},
}

// mayHaveData reports whether the dialects have data at a spot.
func (s spot) mayHaveData() bool {
	if s.free {
		return false
	}
	for _, within := range data[s.name] {
		if within == "" || within == s.within {
			return true
		}
	}
	return false
}
