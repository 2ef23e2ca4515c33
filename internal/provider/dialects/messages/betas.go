package messages

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/internal/provider/turns"
)

// cloudBetas are the betas of the vendor's that other clouds take; they refuse a request that names any other. A
// vendor that is not listed takes them all.
//
// Sources: the clouds' documentation of Claude, and what other gateways found by trying.
var cloudBetas = map[string][]string{
	"bedrock": {
		"compact-2026-01-12", "computer-use-2025-01-24", "computer-use-2025-11-24", "context-1m-2025-08-07",
		"context-management-2025-06-27", "dangerous-tool-use-2026-09-03", "effort-2025-11-24",
		"fine-grained-tool-streaming-2025-05-14", "interleaved-thinking-2025-05-14",
		"mid-conversation-output-config-2026-07-01",
		"mid-conversation-tool-changes-2026-07-01", "thinking-binding-controls-2026-08-01",
		"thinking-display-updates-2026-08-18",
		"tool-search-tool-2025-10-19",
	},
	"vertex": {
		"compact-2026-01-12", "compact-2026-09-04", "computer-use-2025-01-24", "computer-use-2025-11-24",
		"context-1m-2025-08-07",
		"context-management-2025-06-27", "dangerous-tool-use-2026-09-03", "interleaved-thinking-2025-05-14",
		"per-turn-control-2026-07-01", "thinking-binding-controls-2026-08-01", "thinking-display-updates-2026-08-18",
		"tool-search-tool-2025-10-19", "web-search-2025-03-05",
	},
}

// betas asks for the client's betas.
func (e *encoder) betas() {
	names, all := Betas(e.Vendor, e.body.Get("anthropic_beta"))
	e.out.AnthropicBeta = names
	if !all {
		e.Drop("anthropic_beta")
	}
}

// Betas returns the names of betas in the client's member anthropic_beta, a list or a string with commas as in
// Anthropic's header, that a vendor takes. It reports false if it left out any.
func Betas(vendor string, member jsontext.Value) (taken []string, all bool) {
	var names []string
	all = true
	if err := json.Unmarshal(member, &names); err != nil {
		var list string
		if json.Unmarshal(member, &list) == nil {
			names = strings.Split(list, ",")
		} else if turns.Asked(member) {
			all = false
		}
	}
	for _, name := range names {
		switch name = strings.TrimSpace(name); {
		case name == "" || slices.Contains(taken, name):
		case takesBeta(vendor, name):
			taken = append(taken, name)
		default:
			all = false
		}
	}
	return taken, all
}

func takesBeta(vendor, name string) bool {
	taken, limited := cloudBetas[vendor]
	return turns.Identifier(name) == name && (!limited || slices.Contains(taken, name)) // the names end up in a header
}

// beta asks for a beta, and reports whether the cloud takes it.
func (e *encoder) beta(name string) bool {
	if !takesBeta(e.Vendor, name) {
		return false
	}
	if !slices.Contains(e.out.AnthropicBeta, name) {
		e.out.AnthropicBeta = append(e.out.AnthropicBeta, name)
	}
	return true
}
