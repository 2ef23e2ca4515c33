package responses

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/internal/jsonwalk"
	"github.com/modelgate/modelgate/internal/provider/schema"
)

// A clientTool is a tool of OpenAI's that the client runs. For other vendors a function stands for it, and its calls
// come back to the client as items of their own type.
type clientTool struct {
	typ         string // of the tool, and the name of the function
	call        string // type of its calls
	prefix      string // of the ids of calls
	member      string // of a call, which has the arguments as an object
	extra       string // what else is in the arguments of an item, as members of the object
	before      string // the member while the arguments are not known yet
	description string
	parameters  string
}

var clientTools = []*clientTool{
	{"local_shell", "local_shell_call", "lsh_", "action", `"type":"exec","env":{}`,
		`{"type":"exec","command":[],"env":{}}`, "Runs a command on the user's machine, and returns its output.",
		`{"type":"object","properties":{"command":{"type":"array","items":{"type":"string"},"description":"The command and its arguments"},` +
			`"working_directory":{"type":"string"},"timeout_ms":{"type":"integer"}},"required":["command"]}`},
	{"shell", "shell_call", "sh_", "action", "", `{"commands":[]}`,
		"Runs commands in a shell on the user's machine, and returns their output.",
		`{"type":"object","properties":{"commands":{"type":"array","items":{"type":"string"},"description":"The commands"},` +
			`"timeout_ms":{"type":"integer"},"max_output_length":{"type":"integer"}},"required":["commands"]}`},
	{"apply_patch", "apply_patch_call", "apc_", "operation", "", `{"type":"update_file","path":"","diff":""}`,
		"Creates, updates or deletes a file. The diff is in the V4A format: lines that begin with a blank, + or -, after lines that begin with @@. A new file has only lines that begin with +.",
		`{"type":"object","properties":{"type":{"type":"string","enum":["create_file","update_file","delete_file"]},"path":{"type":"string"},` +
			`"diff":{"type":"string","description":"Not for delete_file"}},"required":["type","path"]}`},
	{"tool_search", "tool_search_call", "tsc_", "arguments", "", `{}`, "Searches for tools that can be used.",
		`{"type":"object","properties":{"query":{"type":"string"}},"required":["query"]}`},
	{"computer", "computer_call", "cu_", "action", "", `{}`, "", ""}, // only for the calls of earlier turns
}

// clientToolOf returns the client's tool of a type of calls, or nil.
func clientToolOf(call string) *clientTool {
	if i := slices.IndexFunc(clientTools, func(t *clientTool) bool { return t.call == call }); i >= 0 {
		return clientTools[i]
	}
	return nil
}

// clientRun returns the tool that the client runs by a definition, or nil.
func clientRun(t gjson.Result) *clientTool {
	typ := t.Get("type").Str
	i := slices.IndexFunc(clientTools, func(c *clientTool) bool { return c.typ == typ && c.parameters != "" })
	environment := t.Get("environment.type").Str
	switch {
	case i < 0, typ == "tool_search" && t.Get("execution").Str != "client",
		typ == "shell" && environment != "" && environment != "local":
		return nil
	}
	return clientTools[i]
}

// appendCall appends what an item has of the arguments of a call.
func (c *clientTool) appendCall(dst, arguments []byte) []byte {
	dst = append(append(append(dst, `,"`...), c.member...), `":`...)
	object := jsontext.Value(bytes.TrimSpace(arguments))
	if !jsonwalk.Strict(object) || object.Kind() != '{' {
		object = jsontext.Value(c.before)
	} else if c.extra != "" {
		ms := schema.Without(schema.Members(object), "type", "env")
		object = schema.AppendObject(nil, append(schema.Members(jsontext.Value("{"+c.extra+"}")), ms...))
	}
	dst = append(dst, object...)
	if c.typ == "tool_search" {
		dst = append(dst, `,"execution":"client"`...)
	}
	return dst
}

// eachTool calls f for the functions, custom tools and client tools of a list, also for those in namespaces.
func eachTool(list gjson.Result, f func(namespace string, t gjson.Result)) {
	list.ForEach(func(_, t gjson.Result) bool {
		if t.Get("type").Str == "namespace" {
			name := t.Get("name").Str
			t.Get("tools").ForEach(func(_, inner gjson.Result) bool {
				f(name, inner)
				return true
			})
			return true
		}
		f("", t)
		return true
	})
}

// eachListed calls f for the lists of tools of a request: its own, and those of items that bring tools.
func eachListed(request []byte, f func(list gjson.Result)) {
	f(gjson.GetBytes(request, "tools"))
	if !bytes.Contains(request, []byte("additional_tools")) && !bytes.Contains(request, []byte("tool_search_output")) {
		return
	}
	gjson.GetBytes(request, "input").ForEach(func(_, item gjson.Result) bool {
		if typ := item.Get("type").Str; typ == "additional_tools" || typ == "tool_search_output" {
			f(item.Get("tools"))
		}
		return true
	})
}
