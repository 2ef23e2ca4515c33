// Package legacy serves functions and function_call, which are deprecated in favour of tools, with vendors that only
// have tools.
//
// It is independent of vendors. It converts a request with functions to one with tools, lets any chat codec translate
// it, and converts the answer back. All other requests pass unchanged to the codec. A function_call has no id, so it
// cannot carry data: see openai.Carrier.
package legacy

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
)

// Functions returns a codec for functions that uses a codec for tools.
func Functions(inner provider.ChatCodec) provider.ChatCodec { return codec{inner} }

type codec struct{ inner provider.ChatCodec }

// Encode implements provider.ChatCodec.
func (c codec) Encode(r *openai.ChatRequest, t provider.Target) (provider.Request, provider.Answer, error) {
	if !r.Has("functions") || isEmpty(r.Get("functions")) {
		return c.inner.Encode(r, t)
	}
	// The client gets only the first call, so the model should not make others. Not every vendor has a parameter for
	// that.
	req, a, err := c.encode(r, t, openai.Edit{Name: "parallel_tool_calls", Value: []byte("false")})
	if e, ok := errors.AsType[*openai.Error](err); ok && e.Param == "parallel_tool_calls" {
		req, a, err = c.encode(r, t, openai.Edit{Name: "parallel_tool_calls"})
	}
	if err != nil {
		return provider.Request{}, nil, asFunctions(err)
	}
	req.Dropped = slices.DeleteFunc(slices.Clone(req.Dropped),
		func(name string) bool { return name == "parallel_tool_calls" })
	for _, names := range [][]string{req.Dropped, req.Adjusted} {
		for i, name := range names {
			names[i] = paramName(name)
		}
	}
	return req, &answer{a}, nil
}

// encode translates the request as one with tools.
func (c codec) encode(r *openai.ChatRequest, t provider.Target, parallel openai.Edit) (provider.Request,
	provider.Answer, error) {
	edits, err := toTools(r.Sent())
	if err != nil {
		return provider.Request{}, nil, err
	}
	tools, err := r.Carrier().ParseChatRequest(r.Sent().Edit(append(edits, parallel)...))
	if err != nil {
		return provider.Request{}, nil, err
	}
	tools.Translated = r.Translated
	return c.inner.Encode(tools, t)
}

// toTools returns the edits that convert functions to tools.
func toTools(sent *openai.Object) ([]openai.Edit, error) {
	if !isEmpty(sent.Get("tools")) {
		return nil, openai.CodeInvalidValue.On("functions", "Send 'tools' or 'functions', not both.")
	}
	functions := gjson.ParseBytes(sent.Get("functions"))
	if !functions.IsArray() {
		return nil, openai.CodeInvalidType.On("functions",
			"Invalid type for 'functions': expected an array of objects.")
	}
	tools := []byte{'['}
	for i, f := range functions.Array() {
		if i > 0 {
			tools = append(tools, ',')
		}
		tools = append(append(append(tools, `{"type":"function","function":`...), f.Raw...), '}')
	}
	edits := []openai.Edit{
		{Name: "functions"}, {Name: "function_call"}, {Name: "tools", Value: append(tools, ']')},
		{Name: "messages", Value: toCalls(sent.Get("messages"))}, {Name: "tool_choice"},
	}
	if choice := gjson.ParseBytes(sent.Get("function_call")); choice.IsObject() {
		edits[4].Value = []byte(`{"type":"function","function":` + choice.Raw + `}`)
	} else if choice.Type == gjson.String {
		edits[4].Value = []byte(choice.Raw)
	} else if choice.Exists() && choice.Type != gjson.Null {
		return nil, openai.CodeInvalidType.On("function_call",
			"Invalid type for 'function_call': expected one of 'none' and 'auto', or an object.")
	}
	return edits, nil
}

// isEmpty reports whether a value is absent, null or an empty array.
func isEmpty(value []byte) bool {
	return len(value) == 0 || value[0] == 'n' || value[0] == '[' && len(bytes.TrimSpace(value[1:len(value)-1])) == 0
}

// asFunctions converts an error about tools to one about the client's request.
func asFunctions(err error) error {
	e, ok := errors.AsType[*openai.Error](err)
	if !ok {
		return err
	}
	renamed := *e
	renamed.Param = paramName(e.Param)
	renamed.Message = strings.ReplaceAll(e.Message, "'"+e.Param+"'", "'"+renamed.Param+"'")
	return &renamed
}

// paramName returns the name of a parameter in the client's request.
func paramName(param string) string {
	switch {
	case param == "tools", strings.HasPrefix(param, "tools["):
		return strings.Replace("functions"+strings.TrimPrefix(param, "tools"), "].function", "]", 1)
	case param == "tool_choice", strings.HasPrefix(param, "tool_choice."):
		return "function_call" + strings.TrimPrefix(strings.TrimPrefix(param, "tool_choice"), ".function")
	}
	return strings.NewReplacer(".tool_calls[0].function", ".function_call", ".tool_calls[0]",
		".function_call").Replace(param)
}
