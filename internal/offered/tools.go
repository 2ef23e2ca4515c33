package offered

import (
	"cmp"
	"regexp"
	"strings"

	"github.com/tidwall/gjson"
)

// toolMembers are the members of a tool that neither name nor add another one.
var toolMembers = set(`type name function custom description parameters input_schema inputSchema strict cache_control
	cacheControl defer_loading allowed_callers input_examples eager_input_streaming format id title annotations metadata
	version output_schema returns parametersJsonSchema parameters_json_schema response responseJsonSchema behavior
	index kind`)

// declaring are the members of a tool that declare functions, in the dialects of Google and Bedrock.
var declaring = set(`functionDeclarations function_declarations toolSpec tool_spec`)

// vendorTools are the types of tools that vendors run or define, without a date. The value says that they may be
// billed by the call.
var vendorTools = map[string]bool{
	"web_search": true, "web_search_premium": true, "google_search": true, "google_search_retrieval": true,
	"enterprise_web_search": true, "browser_search": true, "live_search": true, "x_search": true, "news_search": true,
	"file_search": true, "code_interpreter": true, "code_execution": true, "image_generation": true, "web_fetch": true,
	"shell": true, "google_maps": true, "retrieval": true, "collections_search": true, "document_library": true,
	"connector": true, "builtin_function": true, "parallel_ai_search": true, "knowledge_base": true,
	"tool_search_tool_regex": true, "tool_search_tool_bm25": true, "tool_search": true, "browser_automation": true,
	"system_tool": true, "mcp": false, "mcp_servers": false, "mcp_toolset": false, "computer": false,
	"computer_use": false, "local_shell": false, "apply_patch": false, "url_context": false, "bash": false,
	"text_editor": false, "memory": false,
}

const (
	classSearch = "web_search"
	classMCP    = "mcp"
	classStored = "stored" // by the vendor
)

// classes are the common names of tools that vendors call differently.
var classes = map[string]string{
	"google_search": classSearch, "google_search_retrieval": classSearch, "enterprise_web_search": classSearch,
	"browser_search": classSearch, "live_search": classSearch, "web_search_premium": classSearch,
	"parallel_ai_search": classSearch, "mcp_servers": classMCP, "mcp_toolset": classMCP,
}

var version = regexp.MustCompile(`(_preview)?(_\d{8}|_\d{4}_\d{2}_\d{2})?$`)

// base returns the type of a vendor's tool without its version, in lower case with underscores.
func base(typ string) string {
	var b strings.Builder
	for i := range len(typ) {
		c := typ[i]
		if c >= 'A' && c <= 'Z' {
			if i > 0 {
				b.WriteByte('_')
			}
			c += 'a' - 'A'
		}
		b.WriteByte(c)
	}
	return version.ReplaceAllString(b.String(), "")
}

// list reads tools, or functions as chat completions once had them. One tool may stand for a list of one.
func (l *List) list(at string, v gjson.Result, functions bool) {
	switch {
	case v.IsArray():
		v.ForEach(func(_, one gjson.Result) bool {
			l.one(at, one, functions)
			return len(l.Tools) <= maxTools
		})
	default:
		l.one(at, v, functions)
	}
}

func (l *List) one(at string, v gjson.Result, function bool) {
	switch {
	case !v.IsObject():
		l.unread(at)
	case function:
		l.function(at, Function, v, "")
	default:
		l.tool(at, v, "")
	}
}

// function adds a function or a custom tool with the description v. An unknown member of v may be another name.
func (l *List) function(at string, kind Kind, v gjson.Result, namespace string) {
	l.named(at, kind, v.Get("name"), namespace)
	if !v.IsObject() {
		return
	}
	v.ForEach(func(key, of gjson.Result) bool {
		if k := key.Str; (!toolMembers[k] || k == "function" || k == "custom") && of.Type != gjson.Null {
			l.add(Tool{Kind: Unknown, Name: "unknown:" + at + "[]." + key.Str, Member: at})
		}
		return true
	})
}

// named adds a function or a custom tool. A name that is no text is unknown.
func (l *List) named(at string, kind Kind, name gjson.Result, namespace string) {
	if name.Type != gjson.String {
		l.add(Tool{Kind: Unknown, Name: "unknown:" + at, Member: at})
		return
	}
	t := Tool{Kind: kind, Name: name.Str, Member: at}
	if namespace != "" {
		t.Alias = namespace + "__" + name.Str
	}
	l.add(t)
}

// tool reads a tool in every way in which a vendor may read it.
func (l *List) tool(at string, v gjson.Result, namespace string) {
	before := len(l.Tools)
	typ, name := v.Get("type"), v.Get("name")
	isNull := func(v gjson.Result) bool { return v.Type == gjson.Null }
	if typ.Type != gjson.String && !isNull(typ) {
		l.unread(at + "[].type")
	}
	known, empty := false, false // the type names a vendor's tool; it is a place for tools without any
	switch typ.Str {
	case "", "function", "custom":
	case "namespace":
		empty, name = true, gjson.Result{}
	default:
		known = l.vendors(at, typ.Str)
	}
	v.ForEach(func(key, of gjson.Result) bool {
		empty = empty || declaring[key.Str] || key.Str == "cachePoint"
		l.part(at, typ.Str, key.Str, of, v, namespace)
		return true
	})
	isFunction := !known || !isNull(v.Get("parameters")) || !isNull(v.Get("input_schema"))
	switch {
	case !isNull(name) && isFunction:
		kind := Function
		if typ.Str == "custom" {
			kind = Custom
		}
		if len(l.Tools) == before || l.Tools[len(l.Tools)-1].Name != name.Str {
			l.named(at, kind, name, namespace)
		}
	case len(l.Tools) == before && !empty:
		l.unread(at)
	}
}

// unread adds a tool that cannot be read. Nobody knows what it is, and what it costs.
func (l *List) unread(at string) {
	l.add(Tool{Kind: Unknown, Name: "unknown:" + at, Member: at})
	l.fee("unknown:"+at, at)
}

// vendors adds a tool of a vendor's type, and reports whether the type is known.
func (l *List) vendors(at, typ string) (known bool) {
	of := base(typ)
	fee, known := vendorTools[of]
	t := Tool{Kind: Server, Name: typ, Class: cmp.Or(classes[of], of), Member: at}
	if t.Class == classMCP {
		t.Kind = MCP
	}
	l.add(t)
	if keepers[of] {
		l.keeps(at)
	}
	switch {
	case strings.HasPrefix(typ, classSearch): // whatever its version is
		l.fee(classSearch, at)
	case typ == "code_execution", typ == "codeExecution": // Google's costs tokens alone
	case t.Class == classSearch:
		l.fee(classSearch, at)
	case fee || !known:
		l.fee(typ, at)
	}
	return known
}

// part reads a member of a tool.
func (l *List) part(at, typ, key string, of, whole gjson.Result, namespace string) {
	isVendors := typ != "" && typ != "function" && typ != "custom" && typ != "namespace"
	_, known := vendorTools[base(key)]
	if isVendors {
		known = false
	}
	if isVendors && toolMembers[key] { // OpenRouter's tools have their settings in parameters
		l.deep(at+"[]."+key, of)
	}
	if isVendors && (ids[key] || key == "container" && isContainer(of)) && !isOff(of) {
		l.keeps(at + "[]." + key)
	}
	switch {
	case of.Type == gjson.Null:
	case key == "function":
		l.function(at, Function, of, namespace)
	case key == "custom" && of.IsObject():
		l.function(at, Custom, of, namespace)
	case key == "tools":
		if !of.IsArray() {
			l.unread(at + "[].tools")
			return
		}
		space := whole.Get("name").Str
		of.ForEach(func(_, inner gjson.Result) bool {
			l.nested(at, func() { l.tool(at, inner, space) })
			return len(l.Tools) <= maxTools
		})
	case declaring[key]:
		if of.IsArray() {
			of.ForEach(func(_, f gjson.Result) bool {
				l.function(at, Function, f, "")
				return len(l.Tools) <= maxTools
			})
			return
		}
		l.function(at, Function, of, "")
	case toolMembers[key], key == "cachePoint":
	case known: // Google's form: {"googleSearch":{}}
		l.vendors(at, key)
	case isModelMember(key):
		l.models(at+"[]."+key, of)
	case isVendors:
		l.deep(at+"[]."+key, of)
	case of.Type != gjson.False:
		l.add(Tool{Kind: Unknown, Name: "unknown:" + at + "[]." + key, Member: at})
		if foldedTools[fold(key)] {
			l.fee("unknown:"+key, at)
		}
		l.deep(at+"[]."+key, of)
	}
}

// deep finds models that are named within a value.
func (l *List) deep(at string, v gjson.Result) {
	if !v.IsObject() && !v.IsArray() {
		return
	}
	v.ForEach(func(key, of gjson.Result) bool {
		if isModelMember(key.Str) {
			l.models(at+"."+key.Str, of)
		} else {
			if ids[key.Str] && !isOff(of) && (key.Str != "skill_id" || v.Get("type").Str != "anthropic") {
				l.keeps(at + "." + key.Str)
			}
			l.nested(at, func() { l.deep(at, of) })
		}
		return len(l.Models) <= maxModels
	})
}

// isModelMember reports whether a member is called as one that names a model.
func isModelMember(name string) bool {
	f := fold(name)
	return strings.Contains(f, "model") || strings.Contains(f, "fallback")
}
