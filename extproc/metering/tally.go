package metering

import (
	"slices"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/usage"
)

// reportedTools are the tools whose calls an answer of /v1/responses reports as items of the output:
// "web_search_call".
var reportedTools = [...]string{"web_search", "file_search", "code_interpreter", "image_generation"}

// A Tally counts the tool calls that the vendor reports. The zero value reports nothing.
type Tally struct {
	calls    [len(reportedTools)]int64
	items    int  // of the output, of any type
	Complete bool // the tally has all items
}

// item counts an item of a type.
func (t *Tally) item(typ string) {
	t.items++
	if i := slices.Index(reportedTools[:], strings.TrimSuffix(typ, "_call")); i >= 0 && strings.HasSuffix(typ, "_call") {
		t.calls[i]++
	}
}

func (t *Tally) add(other *Tally) {
	t.items += other.items
	for i := range t.calls {
		t.calls[i] += other.calls[i]
	}
}

// of returns how often a requested tool was run, and whether that is known.
func (t *Tally) of(s Surcharge, u *openai.Usage) (n int64, known bool) {
	i, told := slices.Index(reportedTools[:], s.Tool), u.SearchesKnown
	switch {
	case s.Tool == SearchUnit:
		return u.Units, u.Units > 0
	case i < 0:
		return 0, false
	case i == 0 && told:
		return t.searches(u), true
	}
	return t.calls[i], t.calls[i] > 0 || t.Complete && t.items > 0 && s.Param == "tools"
}

// searches returns how many searches of the web are billed: pages that are opened are calls, too.
func (t *Tally) searches(u *openai.Usage) int64 {
	if u.SearchesBilled {
		return u.Searches
	}
	return max(t.calls[0], u.Searches)
}

// fees returns the cost of the tools that were run. The number of calls is the vendor's, or else the requested one. A
// tool that the vendor reports but no known member requested, as in a request of a Route, is charged too.
func (s *Surcharges) fees(rates *usage.Rates, r *Record, t *Tally) (all usage.Nano) {
	var asked []Surcharge
	if s != nil {
		asked = s.Tools
	}
	for _, of := range asked {
		n, known := t.of(of, &r.Usage)
		if !known {
			n = s.Calls
		}
		cost, _ := rates.Calls(of.Tool, n)
		all = all.Plus(cost)
	}
	more := func(tool string, n int64) {
		if n > 0 && !slices.ContainsFunc(asked, func(of Surcharge) bool { return of.Tool == tool }) {
			cost, known := rates.Calls(tool, n)
			if all = all.Plus(cost); !known && tool == ComputeUnit {
				r.PriceVersion += "/unpriced:" + tool
			}
		}
	}
	for i, tool := range reportedTools {
		n := t.calls[i]
		if i == 0 {
			n = t.searches(&r.Usage)
		}
		more(tool, n)
	}
	more(SearchUnit, r.Usage.Units)
	more(ComputeUnit, r.Usage.ComputeUnits)
	return all
}
