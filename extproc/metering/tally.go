package metering

import (
	"slices"
	"strings"

	"github.com/modelgate/modelgate/internal/usage"
)

// ran are the tools that an answer of /v1/responses tells each call of, as an item of the output: "web_search_call".
var ran = [...]string{"web_search", "file_search", "code_interpreter", "image_generation"}

// A Tally is how often the vendor says that it ran its tools. The zero Tally is of an answer that says nothing of it.
type Tally struct {
	calls [len(ran)]int64
	items int  // of the output, of any type
	Whole bool // there are no others than these
}

// item takes in an item of a type.
func (t *Tally) item(typ string) {
	t.items++
	if i := slices.Index(ran[:], strings.TrimSuffix(typ, "_call")); i >= 0 && strings.HasSuffix(typ, "_call") {
		t.calls[i]++
	}
}

func (t *Tally) add(other *Tally) {
	t.items += other.items
	for i := range t.calls {
		t.calls[i] += other.calls[i]
	}
}

// of returns how often a tool was run that was asked for, and whether that is told.
func (t *Tally) of(s Surcharge, searches int64, told bool) (n int64, known bool) {
	i := slices.Index(ran[:], s.Tool)
	switch {
	case i < 0:
		return 0, false
	case i == 0 && told:
		return max(t.calls[0], searches), true
	}
	return t.calls[i], t.calls[i] > 0 || t.Whole && t.items > 0 && s.Param == "tools"
}

// fees returns what the tools cost that were run: as often as the vendor says, or where it does not, as was asked for.
// What nobody asked for in a way that is read, as in a request of a Route, and the vendor tells of, costs too.
func (s *Surcharges) fees(rates *usage.Rates, r *Record, t *Tally) (all usage.Nano) {
	var asked []Surcharge
	if s != nil {
		asked = s.Tools
	}
	for _, of := range asked {
		n, known := t.of(of, r.Usage.Searches, r.Usage.SearchesTold)
		if !known {
			n = s.Calls
		}
		cost, _ := rates.Calls(of.Tool, n)
		all = all.Plus(cost)
	}
	for i, tool := range ran {
		n := t.calls[i]
		if i == 0 {
			n = max(n, r.Usage.Searches)
		}
		if n > 0 && !slices.ContainsFunc(asked, func(of Surcharge) bool { return of.Tool == tool }) {
			cost, _ := rates.Calls(tool, n)
			all = all.Plus(cost)
		}
	}
	return all
}
