package metering

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/usage"
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
	return Report{w.scan.usage(), w.scan.model(), w.scan.tier(), w.scan.tally, w.scan.tally.items > 0}
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
	report  Report // the greatest value of each count
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
	w.report.Used = maxUsage(w.report.Used, w.scan.usage())
	w.report.Model = cmp.Or(w.scan.model(), w.report.Model)
	w.report.Tier = cmp.Or(w.scan.tier(), w.report.Tier)
	if typ == "response.output_item.done" {
		w.report.Tally.add(&w.scan.tally)
	}
	w.scan = scanner{name: w.scan.name, keep: w.scan.keep[:0]}
}

// End implements Watch.
func (w *EventWatch) End() (rest []byte, complete, failed bool) {
	w.event()
	return w.partial, w.ended || !w.known, w.failed
}

// Report implements Watch.
func (w *EventWatch) Report() Report { return w.report }

// usage returns the usage in the found members.
func (s *scanner) usage() (u openai.Usage) {
	for _, m := range [...]member{memberUsage, memberResponseUsage, memberMessageUsage, memberUsageMetadata} {
		if text := s.found[m]; text != "" {
			u = maxUsage(u, readUsage(text))
		}
	}
	return u
}

func (s *scanner) model() string { return strings.Trim(s.found[memberModel], `"`) }

func (s *scanner) tier() string { return strings.Trim(s.found[memberTier], `"`) }

// maxUsage returns the greater of each count: events report a part of a usage, or repeat earlier counts.
func maxUsage(a, b openai.Usage) openai.Usage {
	sum, other := usage.Used{Usage: a}, usage.Used{Usage: b}
	for k := range usage.Kinds {
		*sum.At(k) = max(*sum.At(k), *other.At(k))
	}
	sum.TotalTokens, sum.HourWriteTokens = max(a.TotalTokens, b.TotalTokens), max(a.HourWriteTokens, b.HourWriteTokens)
	sum.Searches, sum.SearchesKnown = max(a.Searches, b.Searches), a.SearchesKnown || b.SearchesKnown
	sum.WritesSplit = a.WritesSplit || b.WritesSplit
	return sum.Usage
}

// readUsage reads a usage object of any operation.
func readUsage(text string) openai.Usage {
	if text == "" {
		return openai.Usage{}
	}
	root := gjson.Parse(text)
	count := func(paths ...string) int64 {
		for _, p := range paths {
			if n := root.Get(p); n.Exists() {
				return openai.Count(n.Int())
			}
		}
		return 0
	}
	if root.Get("promptTokenCount").Exists() { // Gemini counts thoughts separately
		return openai.Usage{
			PromptTokens:     count("promptTokenCount") + count("toolUsePromptTokenCount"),
			CompletionTokens: count("candidatesTokenCount") + count("thoughtsTokenCount"),
			TotalTokens:      count("totalTokenCount"),
			CachedTokens:     count("cachedContentTokenCount"),
			ReasoningTokens:  count("thoughtsTokenCount"),
		}
	}
	searches := count("server_tool_use.web_search_requests")
	// Anthropic and Bedrock count the cached part of the prompt separately.
	read, written := count("cache_read_input_tokens", "cacheReadInputTokens"), count("cache_creation_input_tokens",
		"cacheWriteInputTokens")
	if read+written > 0 {
		hour := count("cache_creation.ephemeral_1h_input_tokens", `cacheDetails.#(ttl=="1h").inputTokens`)
		brief := count("cache_creation.ephemeral_5m_input_tokens", `cacheDetails.#(ttl=="5m").inputTokens`)
		return openai.Usage{
			PromptTokens: count("input_tokens", "inputTokens") + read + written, CompletionTokens: count("output_tokens",
				"outputTokens"),
			CachedTokens: read, CacheWriteTokens: written, HourWriteTokens: hour, WritesSplit: hour+brief > 0,
			Searches: searches, SearchesKnown: searches > 0,
		}
	}
	return openai.Usage{
		PromptTokens:     count("input_tokens", "prompt_tokens", "inputTokens"),
		CompletionTokens: count("output_tokens", "completion_tokens", "outputTokens"),
		TotalTokens:      count("total_tokens", "totalTokens"),
		CachedTokens:     count("input_tokens_details.cached_tokens", "prompt_tokens_details.cached_tokens"),
		PromptAudio:      count("input_token_details.audio_tokens", "input_tokens_details.audio_tokens"),
		ReasoningTokens:  count("output_tokens_details.reasoning_tokens", "completion_tokens_details.reasoning_tokens"),
		CompletionAudio:  count("output_tokens_details.audio_tokens"),
		Searches:         searches, SearchesKnown: searches > 0,
	}
}
