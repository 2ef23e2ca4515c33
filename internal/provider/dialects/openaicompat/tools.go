package openaicompat

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/jsonwalk"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

// ForcesTool reports whether the client wants the model to call a tool in any case.
func ForcesTool(r *openai.ChatRequest) bool {
	choice := gjson.ParseBytes(r.Get("tool_choice"))
	return choice.Str == "required" || choice.Get("type").Str == "function"
}

// tools gives tools and the choice among them as the vendor takes them.
func (c *Changes) tools() error {
	d := c.dialect
	if err := c.searchTool(); err != nil {
		return err
	}
	if err := c.otherTools(); err != nil {
		return err
	}
	list := c.Get("tools")
	if list.Kind() == '[' && c.object.Marked(openai.MarkCacheControl) && slices.Contains(d.Hints, "cache_control") {
		var p patch
		p.reset(list)
		jsonwalk.Array(list, 0, func(start int) int { return c.dropCacheControl(&p, start) })
		if len(p.edits) > 0 {
			list = p.appendTo(nil)
			c.Set("tools", list)
		}
	}
	if d.AsReceived {
		return nil
	}
	if list != nil && isEmpty(list) { // which asks for nothing, and is refused by many
		c.Remove("tools")
		list = nil
	}
	if list == nil {
		c.Remove("parallel_tool_calls")
		if choice := string(c.Get("tool_choice")); choice == `"auto"` || choice == `"none"` {
			c.Remove("tool_choice")
		}
	}
	if d.AllTools {
		return nil
	}
	if err := c.customTools(); err != nil {
		return err
	}
	return c.toolChoice()
}

// searchTool makes web_search_options of a tool that searches the web.
func (c *Changes) searchTool() error {
	if !c.dialect.SearchTool || !c.object.Marked(openai.MarkOtherTool) {
		return nil
	}
	var options []byte
	var failed error
	kept := c.filterTools(func(i int, tool gjson.Result) bool {
		if !turns.IsSearch(tool.Get("type").Str) {
			return true
		}
		said, others := turns.SearchOptions([]byte(tool.Raw))
		for _, m := range others {
			param := fmt.Sprintf("tools[%d].%s", i, turns.Identifier(m.Name))
			if c.translated { // another dialect's way to bound a search, such as max_uses
				c.note(param)
				continue
			}
			failed = cmp.Or(failed, c.drop(param))
		}
		options = said
		return false
	})
	if options != nil && c.Get("web_search_options") == nil {
		c.Set("web_search_options", options)
	}
	if options != nil && kept == 0 {
		for _, name := range []string{"tools", "tool_choice", "parallel_tool_calls"} { // which are nothing without tools
			c.Remove(name)
		}
	}
	return failed
}

// otherTools judges the tools of a translated request that chat completions do not have.
func (c *Changes) otherTools() error {
	if !c.translated || !c.object.Marked(openai.MarkOtherTool) {
		return nil
	}
	o := turns.Omitted{Vendor: c.dialect.Vendor, Drops: c.target.Drops(), Translated: true, Last: c.target.Last}
	isOther := func(tool gjson.Result) bool {
		return tool.Get("type").Str != "function" && tool.Get("type").Str != "custom"
	}
	functions := false
	eachElement(c.Get("tools"), func(tool []byte) { functions = functions || !isOther(gjson.ParseBytes(tool)) })
	var failed error
	kept := c.filterTools(func(i int, tool gjson.Result) bool {
		if isOther(tool) {
			failed = cmp.Or(failed, o.OtherTool(tool.Get("type").Str, i, functions))
		}
		return !isOther(tool)
	})
	if kept == 0 {
		c.Remove("tools")
	}
	for _, name := range o.Names {
		c.note(name)
	}
	return failed
}

// customTools judges tools that take text. Only OpenAI has them.
func (c *Changes) customTools() error {
	var failed error
	if c.object.Marked(openai.MarkCustomTool) {
		kept := c.filterTools(func(i int, tool gjson.Result) bool {
			if tool.Get("type").Str != "custom" {
				return true
			}
			failed = cmp.Or(failed, c.drop(fmt.Sprintf("tools[%d]", i)))
			return false
		})
		if kept == 0 {
			c.Remove("tools")
		}
	}
	return failed
}

func (c *Changes) toolChoice() error {
	choice := c.Get("tool_choice")
	if choice.Kind() == '{' && gjson.GetBytes(choice, "type").Str == "allowed_tools" {
		allowed := gjson.GetBytes(choice, "allowed_tools")
		var names []string
		for _, name := range allowed.Get("tools.#.function.name").Array() {
			names = append(names, name.Str)
		}
		if mode := allowed.Get("mode").Str; !c.OnlyTools(names...) || mode != "auto" && mode != "required" {
			return c.Refuse("tool_choice")
		}
		choice = []byte(allowed.Get("mode").Raw)
		c.Set("tool_choice", choice)
	}
	switch {
	case !c.dialect.AutoTools:
	case string(choice) == `"none"`:
		c.Remove("tools")
		c.Remove("tool_choice")
	case choice != nil && string(choice) != `"auto"`:
		return c.Refuse("tool_choice")
	}
	return nil
}

// OnlyTools leaves all tools out but the functions of these names. It reports whether there are any.
func (c *Changes) OnlyTools(names ...string) bool {
	only := make(map[string]bool, len(names))
	for _, name := range names {
		only[name] = true
	}
	return c.filterTools(func(_ int, tool gjson.Result) bool { return only[tool.Get("function.name").Str] }) > 0
}

// filterTools leaves out the tools that keep does not want, and returns how many are left. If that is none it
// changes nothing.
func (c *Changes) filterTools(keep func(i int, tool gjson.Result) bool) int {
	list := c.Get("tools")
	out, i, kept := []byte{'['}, 0, 0
	eachElement(list, func(tool []byte) {
		if keep(i, gjson.ParseBytes(tool)) {
			if kept > 0 {
				out = append(out, ',')
			}
			out = append(out, tool...)
			kept++
		}
		i++
	})
	if kept > 0 && kept < i {
		c.Set("tools", append(out, ']'))
	}
	return kept
}
