package gemini

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider/schema"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

// Modes of calling functions.
const (
	modeAuto      = "AUTO"
	modeAny       = "ANY"
	modeNone      = "NONE"
	modeValidated = "VALIDATED" // as AUTO, and arguments match their schemas
)

// ownTools are tools that the vendor runs itself. Clients name them as the vendor does, in camel case or with
// underscores.
var ownTools = []string{
	"googleSearch", "googleSearchRetrieval", "googleMaps", "urlContext", "codeExecution", "fileSearch",
	"enterpriseWebSearch",
	"retrieval", "computerUse",
}

// tools translates the tools and the choice among them.
func (e *encoder) tools() error {
	var functions []declaration
	var own []jsontext.Value
	strict := false
	raw := schema.Elements(e.body.Get("tools"))
	for i := range e.chat.Tools {
		t := &e.chat.Tools[i]
		if t.Type == "function" {
			f, err := e.function(t, i)
			if err != nil {
				return err
			}
			functions = append(functions, f)
			strict = strict || t.Function.Strict != nil && *t.Function.Strict
			continue
		}
		if tool := e.ownTool(t.Type, i, raw[i]); tool != nil {
			if !slices.ContainsFunc(own, func(v jsontext.Value) bool { return string(v) == string(tool) }) {
				own = append(own, tool)
			}
			continue
		}
		if err := e.OtherTool(t.Type, i, e.HasFunctions(e.chat.Tools)); err != nil {
			return err
		}
	}
	if w := e.chat.WebSearchOptions; w != nil && w.Kind() != 'n' { // {} asks for a search
		own = e.search(own, w, "web_search_options.")
	}
	functions, err := e.choice(functions, strict)
	if err != nil {
		return err
	}
	if len(functions) > 0 {
		text, err := json.Marshal(declarations{functions}, jsontext.PreserveRawStrings(true))
		if err != nil {
			return openai.CodeInvalidValue.On("tools", "Invalid 'tools': %v.", err)
		}
		e.out.Tools = append(e.out.Tools, text)
	}
	e.out.Tools = append(e.out.Tools, own...)
	return nil
}

// ownTool returns one of the vendor's own tools as the vendor has it, or nil if it is none. Clients write
// {"googleSearch":{}}, {"type":"google_search"} with what else it says beside the type or in a member of that name, or
// as others do that search the web.
func (e *encoder) ownTool(typ string, i int, raw jsontext.Value) jsontext.Value {
	members := schema.Members(raw)
	name := camelCase(typ)
	var config jsontext.Value
	switch {
	case turns.IsSearch(typ):
		return e.search(nil, raw, fmt.Sprintf("tools[%d].", i))[0]
	case typ == "" && len(members) == 1:
		name, config = camelCase(members[0].Name), members[0].Value
	case schema.Find(members, typ) != nil:
		config = schema.Find(members, typ)
	case schema.Find(members, name) != nil:
		config = schema.Find(members, name)
	default:
		config = schema.AppendObject(nil, schema.Without(members, "type", "cache_control"))
	}
	if !slices.Contains(ownTools, name) || name == "enterpriseWebSearch" && !e.service.Enterprise {
		return nil
	}
	return schema.AppendObject(nil, []schema.Member{{Name: name, Value: config}})
}

// search appends the vendor's search to its own tools, once. What else the client says of the search has no place.
func (e *encoder) search(own []jsontext.Value, options jsontext.Value, param string) []jsontext.Value {
	for _, m := range schema.Members(options) {
		if m.Name != "type" && m.Name != "name" && turns.Asked(m.Value) && string(m.Value) != `"medium"` {
			e.Drop(param + headerName(m.Name))
		}
	}
	if slices.ContainsFunc(own, func(v jsontext.Value) bool { return string(v) == googleSearch }) {
		return own
	}
	return append(own, jsontext.Value(googleSearch))
}

// googleSearch is the vendor's search.
const googleSearch = `{"googleSearch":{}}`

func (e *encoder) function(t *openai.Tool, i int) (declaration, error) {
	f := &t.Function
	param := fmt.Sprintf("tools[%d].function", i)
	if err := turns.CheckFunction(f, i); err != nil {
		return declaration{}, err
	}
	out := declaration{Name: e.names.Sent(f.Name), Description: f.Description}
	if !turns.Asked(f.Parameters) {
		return out, nil
	}
	var err error
	if out.Parameters, err = e.cleanSchema(f.Parameters, param+".parameters"); err != nil {
		return declaration{}, err
	}
	if f.Strict != nil && *f.Strict && !e.thirdGeneration() {
		e.Drop(param + ".strict")
	}
	return out, nil
}

// choice translates tool_choice, and returns the functions that are left.
func (e *encoder) choice(functions []declaration, strict bool) ([]declaration, error) {
	c := e.chat.ToolChoice
	if c == nil {
		c = &openai.ToolChoice{Mode: "auto"}
	}
	if len(functions) == 0 {
		if c.Mode != "none" && c.Mode != "auto" {
			return nil, openai.CodeInvalidValue.On("tool_choice",
				"Invalid value for 'tool_choice': it is only allowed when 'tools' are specified.")
		}
		return nil, nil
	}
	var config callingConfig
	switch c.Mode {
	case "none":
		config.Mode = modeNone
	case "auto":
		if config.Mode = modeAuto; strict && e.thirdGeneration() {
			config.Mode = modeValidated
		}
	case "required":
		config.Mode = modeAny
	case "function":
		config = callingConfig{modeAny, []string{e.names.Sent(c.Name)}}
	default:
		return nil, openai.BadValue("tool_choice", "A 'tool_choice' of '%s' is not supported by the provider '%s'.", c.Mode,
			e.Vendor)
	}
	for _, n := range c.Allowed {
		config.Allowed = append(config.Allowed, e.names.Sent(n))
	}
	if config.Allowed != nil {
		var err error
		if config.Mode == modeAuto && e.thirdGeneration() {
			config.Mode = modeValidated // which is as AUTO, and takes names
		}
		if functions, err = config.allow(functions, c); err != nil {
			return nil, err
		}
	}
	if e.chat.ToolChoice != nil || config.Mode == modeValidated { // AUTO is the vendor's default too
		e.out.ToolConfig = &toolConfig{config}
	}
	return functions, nil
}

// allow narrows the functions to those that are allowed. The vendor takes their names in all modes but AUTO, and
// then the others are left out (https://ai.google.dev/gemini-api/docs/function-calling).
func (config *callingConfig) allow(functions []declaration, c *openai.ToolChoice) ([]declaration, error) {
	names := make(map[string]bool, len(config.Allowed))
	for _, n := range config.Allowed {
		names[n] = true
	}
	allowed := slices.DeleteFunc(slices.Clone(functions), func(f declaration) bool { return !names[f.Name] })
	switch {
	case len(allowed) == 0 && c.Mode == "function":
		return nil, openai.CodeInvalidValue.On("tool_choice",
			"Tool choice '%s' not found in 'tools' parameter.", c.Name)
	case len(allowed) == 0:
		return nil, openai.CodeInvalidValue.On("tool_choice",
			"None of the allowed tools of 'tool_choice' is in the 'tools' parameter.")
	}
	config.Allowed = nil
	if config.Mode == modeAuto {
		return allowed, nil
	}
	for _, f := range allowed {
		config.Allowed = append(config.Allowed, f.Name)
	}
	return functions, nil
}
