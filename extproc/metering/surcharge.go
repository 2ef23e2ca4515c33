package metering

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/internal/usage"
)

// Surcharges are the parts of a request that change its price: a service tier, and tools that the vendor runs and
// bills by the call.
type Surcharges struct {
	Tier  string
	Tools []Surcharge
	Calls int64 // of each tool, at most, if the request has a limit
}

// A Surcharge is a tool, with the catalog's name, and the member that requests it.
type Surcharge struct{ Tool, Param string }

// searches are members that make the vendor search.
var searches = [...]Surcharge{
	{"web_search", "web_search_options"}, // OpenAI's, and of vendors with its dialect
	{"web_search", "search_parameters"},  // xAI's
	{"plugins", "plugins"},               // OpenRouter's
	{"models", "models"},                 // OpenRouter's: fallback models, at their own prices
	{"web_search", "enable_search"},      // Alibaba's
}

// maxSurcharges bounds the billed tools that are read from a request: vendors have about ten.
const maxSurcharges = 64

// freeTools are the types of tools that cost only tokens: the client runs them, or is billed for the tokens that they
// read.
var freeTools = map[string]bool{
	"": true, "function": true, "custom": true, "local_shell": true, "apply_patch": true, "mcp": true,
	"computer_use_preview": true, "computer": true,
	"url_context": true, "urlContext": true, "code_execution": true, "codeExecution": true, // Gemini's
}

// googleSearches are Gemini's tools that search the web.
var googleSearches = map[string]bool{
	"google_search": true, "googleSearch": true, "google_search_retrieval": true, "googleSearchRetrieval": true,
	"enterprise_web_search": true,
	"enterpriseWebSearch":   true,
}

// RequestedTier returns the requested service tier, or "".
func (s *Surcharges) RequestedTier() string {
	if s == nil {
		return ""
	}
	return s.Tier
}

// Cost returns the cost of the tools with a price.
func (s *Surcharges) Cost(rates *usage.Rates) (all usage.Nano) {
	if s == nil {
		return 0
	}
	for _, of := range s.Tools {
		cost, _ := rates.Calls(of.Tool, s.Calls)
		all = all.Plus(cost)
	}
	return all
}

// SearchUnit is the tool that prices the search units of a rerank, as Cohere bills them: a query with up to perUnit
// documents is one. Vendors that bill tokens have no price for it.
const SearchUnit = "search_unit"

const perUnit = 100

// rankingOf returns the surcharges of a rerank.
func rankingOf(documents gjson.Result) *Surcharges {
	n := documents.Get("#").Int()
	return &Surcharges{Tools: []Surcharge{{SearchUnit, "documents"}}, Calls: max(1, (n+perUnit-1)/perUnit)}
}

// surchargesOf reads the surcharges of a request. It returns nil, and allocates nothing, if there are none.
func surchargesOf(get func(string) gjson.Result) *Surcharges {
	tier := get("service_tier").Str
	var asked []Surcharge
	for _, of := range searches {
		if v := get(of.Param); v.IsObject() || v.Type == gjson.True || v.IsArray() && v.Raw != "[]" {
			asked = append(asked, of)
		}
	}
	if tools := get("tools"); tools.IsArray() {
		asked = billed(tools, asked)
	}
	if tier == "" && len(asked) == 0 {
		return nil
	}
	return &Surcharges{Tier: tier, Tools: asked, Calls: max(1, count(get("max_tool_calls")))}
}

// billed appends the tools of a request that the vendor runs and bills by the call, each once.
func billed(tools gjson.Result, asked []Surcharge) []Surcharge {
	tools.ForEach(func(_, tool gjson.Result) bool {
		typ := tool.Get("type").Str
		if typ == "" { // Gemini's form: {"googleSearch":{}}
			tool.ForEach(func(name, _ gjson.Result) bool {
				if googleSearches[name.Str] {
					typ = name.Str
				}
				return typ == ""
			})
		}
		if strings.HasPrefix(typ, "web_search") || googleSearches[typ] {
			typ = "web_search"
		}
		if of := (Surcharge{typ, "tools"}); !freeTools[typ] && !slices.Contains(asked, of) && len(asked) < maxSurcharges {
			asked = append(asked, of)
		}
		return true
	})
	return asked
}
