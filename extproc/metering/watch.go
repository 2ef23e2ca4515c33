package metering

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/reported"
)

// A Watch reads an answer that passes in pieces, which are cut anywhere. It stores only what is recorded.
type Watch interface {
	// Feed reads a piece. It returns the bytes for the client, and whether they differ from the piece.
	Feed(piece []byte) (out []byte, changed bool)
	// End ends the body. It returns the bytes that Feed has held back, whether the answer is complete, and whether it
	// reports a failure.
	End() (rest []byte, complete, failed bool)
	// Chunks returns the number of events with data that ended in the last piece.
	Chunks() int
	// Report returns what the answer reports about itself.
	Report() Report
}

// A Report is what an answer reports about its cost.
type Report struct {
	Used  openai.Usage
	Model string // the provider's name
	Tier  string // service tier that was given
	Tally Tally
	Said  bool // it has content, and not only its announcement and an error
	// Failed means that it has reported a failure.
	Failed bool
}

// A DocumentWatch reads an answer that is one JSON object.
type DocumentWatch struct{ scan scanner }

// Feed implements Watch.
func (w *DocumentWatch) Feed(piece []byte) ([]byte, bool) {
	w.scan.feed(piece)
	return piece, false
}

// Chunks implements Watch.
func (w *DocumentWatch) Chunks() int { return 0 }

// End implements Watch.
func (w *DocumentWatch) End() (rest []byte, complete, failed bool) {
	return nil, w.scan.begun && w.scan.depth == 0 && !w.scan.list, w.scan.found[memberError] != ""
}

// Report implements Watch.
func (w *DocumentWatch) Report() Report {
	return Report{w.scan.reported(), w.scan.model(), w.scan.tier(), w.scan.tally, w.scan.tally.items > 0,
		w.scan.found[memberError] != ""}
}

// A SilentWatch reads an event stream and never changes it.
type SilentWatch struct{ EventWatch }

// Feed implements Watch.
func (w *SilentWatch) Feed(piece []byte) ([]byte, bool) {
	w.read(piece)
	return piece, false
}

// End implements Watch.
func (w *SilentWatch) End() (rest []byte, complete, failed bool) {
	_, _, failed = w.EventWatch.End()
	return nil, true, failed
}

// An EventWatch reads a stream of server-sent events whose data are JSON objects with a type.
type EventWatch struct {
	scan    scanner
	head    []byte // the first bytes of a line
	known   bool   // streams of this kind have an end mark
	ended   bool
	failed  bool
	report  Report // but for the usage
	partial []byte // the beginning of an incomplete event
	events  int    // events with data that ended in the last piece
}

// maxPartial bounds the held part of an event: an image is one event.
const maxPartial = 64 << 10

// ends are the events that complete a stream, by operation.
var ends = map[string]bool{
	"response.completed": true, "response.incomplete": true, "response.failed": true,
	"image_generation.completed": true, "image_edit.completed": true,
	"transcript.text.done": true, "speech.audio.done": true,
}

// announcements are events without content.
var announcements = map[string]bool{
	"response.created": true, "response.queued": true, "response.in_progress": true, "response.failed": true,
	"message_start": true, "content_block_start": true, "content_block_stop": true, "ping": true, "error": true,
}

const dataField = "data:"

// Feed holds an incomplete event back, because clients fail on a part of one.
func (w *EventWatch) Feed(piece []byte) ([]byte, bool) {
	whole := w.read(piece)
	switch {
	case len(w.partial) == 0 && whole == len(piece):
		return piece, false
	case len(w.partial)+len(piece)-whole > maxPartial:
		whole = len(piece)
	case whole == 0:
		w.partial = append(w.partial, piece...)
		return nil, true
	}
	out := slices.Concat(w.partial, piece[:whole])
	w.partial = append(w.partial[:0], piece[whole:]...)
	return out, true
}

// Chunks implements Watch.
func (w *EventWatch) Chunks() int { return w.events }

// read returns how many bytes of the piece belong to complete events.
func (w *EventWatch) read(piece []byte) (whole int) {
	all := len(piece)
	w.events = 0
	for {
		line, rest, ends := bytes.Cut(piece, []byte("\n"))
		if missing := len(dataField) - len(w.head); missing > 0 {
			taken := min(missing, len(line))
			w.head, line = append(w.head, line[:taken]...), line[taken:]
		}
		if string(w.head) == dataField {
			w.scan.feed(line)
		}
		if !ends {
			return whole
		}
		if len(bytes.TrimRight(w.head, "\r")) == 0 {
			if w.scan.level[1].object { // the end mark is not an object
				w.events++
			}
			w.event()
			whole = all - len(rest)
		}
		w.head, piece = w.head[:0], rest
	}
}

// event reads an event, which may be incomplete.
func (w *EventWatch) event() {
	typ := strings.Trim(w.scan.found[memberType], `"`)
	family, _, _ := strings.Cut(typ, ".")
	switch family {
	case "response", "image_generation", "image_edit", "transcript", "speech":
		w.known = true
	}
	w.ended = w.ended || ends[typ]
	w.failed = w.failed || typ == "error" || typ == "response.failed" || w.scan.found[memberError] != ""
	w.report.Said = w.report.Said || w.scan.level[1].object && w.scan.found[memberError] == "" && !announcements[typ]
	w.report.Model = cmp.Or(w.scan.model(), w.report.Model)
	w.report.Tier = cmp.Or(w.scan.tier(), w.report.Tier)
	if typ == "response.output_item.done" {
		w.report.Tally.add(&w.scan.tally)
	}
	w.scan = scanner{name: w.scan.name, keep: w.scan.keep[:0], usage: w.scan.usage}
}

// End implements Watch.
func (w *EventWatch) End() (rest []byte, complete, failed bool) {
	w.event()
	return w.partial, w.ended || !w.known, w.failed
}

// Report implements Watch.
func (w *EventWatch) Report() Report {
	w.report.Used, w.report.Failed = w.scan.reported(), w.failed
	return w.report
}

// reported returns the usage that was found.
func (s *scanner) reported() openai.Usage {
	if s.usage == nil {
		return openai.Usage{}
	}
	return s.usage.all.OpenAI()
}

func (s *scanner) model() string { return strings.Trim(s.found[memberModel], `"`) }

// tier returns the service tier that was given. Some vendors report it with the usage.
func (s *scanner) tier() string {
	if name := strings.Trim(s.found[memberTier], `"`); name != "" || s.usage == nil {
		return reported.TierName(name)
	}
	return s.usage.all.Tier()
}
