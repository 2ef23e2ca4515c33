package guard

import (
	"cmp"

	"github.com/tidwall/gjson"
)

// ToolNames returns the names of tools, in the dialect of any client. A tool that a vendor runs has its type as its
// name, if it has no other.
func ToolNames(raw []byte) []string {
	var names []string
	list := gjson.ParseBytes(raw)
	list.ForEach(func(_, tool gjson.Result) bool {
		name := cmp.Or(tool.Get("function.name").Str, tool.Get("name").Str)
		declared := tool.Get("functionDeclarations")
		if !declared.Exists() {
			declared = tool.Get("function_declarations")
		}
		switch {
		case name != "":
			names = append(names, name)
		case declared.Exists():
			declared.ForEach(func(_, f gjson.Result) bool {
				names = append(names, f.Get("name").Str)
				return true
			})
		case tool.Get("type").Str != "":
			names = append(names, tool.Get("type").Str)
		default: // Google's own: {"googleSearch": {}}
			tool.ForEach(func(key, _ gjson.Result) bool {
				names = append(names, key.Str)
				return true
			})
		}
		return true
	})
	return names
}
