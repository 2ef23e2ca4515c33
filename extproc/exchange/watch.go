package exchange

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
)

// An observer reads an answer that passes as it comes, in pieces that are cut anywhere, and keeps nothing of it but what is
// to be recorded.
type observer interface {
	// feed takes a piece and returns what the client gets now, and whether that is something else than the piece.
	feed(piece []byte) (out []byte, changed bool)
	// end returns, where the body has ended, what feed has kept back, and reports whether the answer is complete and whether the
	// provider says that it failed.
	end() (rest []byte, complete, failed bool)
	// chunks returns how many events with data the last piece has ended.
	chunks() int
	// told returns what the answer says of itself.
	told() told
}

// told is what an answer says of what it costs, as far as it does.
type told struct {
	used  openai.Usage
	model string // the provider's name
	tier  string // of service, that was given
	tally tally
}

// A documentWatch reads an answer that is one JSON object.
type documentWatch struct{ scan scanner }

func (w *documentWatch) feed(piece []byte) ([]byte, bool) {
	w.scan.feed(piece)
	return piece, false
}

func (w *documentWatch) chunks() int { return 0 }

func (w *documentWatch) end() (rest []byte, complete, failed bool) {
	return nil, w.scan.begun && w.scan.depth == 0 && !w.scan.list, w.scan.found[memberError] != ""
}

func (w *documentWatch) told() told {
	return told{w.scan.usage(), w.scan.model(), w.scan.tier(), w.scan.tally}
}

// A silentWatch reads an event stream that passes as it is, whatever becomes of it.
type silentWatch struct{ eventWatch }

func (w *silentWatch) feed(piece []byte) ([]byte, bool) {
	w.read(piece)
	return piece, false
}

func (w *silentWatch) end() (rest []byte, complete, failed bool) {
	_, _, failed = w.eventWatch.end()
	return nil, true, failed
}

// An eventWatch reads a stream of server-sent events whose data are JSON objects that name their type.
type eventWatch struct {
	scan   scanner
	head   []byte // the first bytes of a line
	known  bool   // the stream is of those that have an end mark
	ended  bool
	failed bool
	said   told   // of each count the most that an event has said
	half   []byte // of an event that has not ended
	ripe   int    // events with data that the last piece has ended
}

// maxHalf bounds what is kept back of an event: images come as one.
const maxHalf = 64 << 10

// ends are the events that complete a stream, of the operations that have such.
var ends = map[string]bool{
	"response.completed": true, "response.incomplete": true, "response.failed": true,
	"image_generation.completed": true, "image_edit.completed": true,
	"transcript.text.done": true, "speech.audio.done": true,
}

const dataField = "data:"

// feed keeps an event back that has not ended: clients fail on half of one.
func (w *eventWatch) feed(piece []byte) ([]byte, bool) {
	whole := w.read(piece)
	switch {
	case len(w.half) == 0 && whole == len(piece):
		return piece, false
	case len(w.half)+len(piece)-whole > maxHalf:
		whole = len(piece)
	case whole == 0:
		w.half = append(w.half, piece...)
		return nil, true
	}
	out := slices.Concat(w.half, piece[:whole])
	w.half = append(w.half[:0], piece[whole:]...)
	return out, true
}

func (w *eventWatch) chunks() int { return w.ripe }

// read returns how many bytes of the piece belong to events that have ended.
func (w *eventWatch) read(piece []byte) (whole int) {
	all := len(piece)
	w.ripe = 0
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
			if w.scan.level[1].object { // the end mark is none
				w.ripe++
			}
			w.event()
			whole = all - len(rest)
		}
		w.head, piece = w.head[:0], rest
	}
}

// event takes what is there of an event.
func (w *eventWatch) event() {
	typ := strings.Trim(w.scan.found[memberType], `"`)
	family, _, _ := strings.Cut(typ, ".")
	switch family {
	case "response", "image_generation", "image_edit", "transcript", "speech":
		w.known = true
	}
	w.ended = w.ended || ends[typ]
	w.failed = w.failed || typ == "error" || typ == "response.failed" || w.scan.found[memberError] != ""
	w.said.used = most(w.said.used, w.scan.usage())
	w.said.model = cmp.Or(w.scan.model(), w.said.model)
	w.said.tier = cmp.Or(w.scan.tier(), w.said.tier)
	if typ == "response.output_item.done" {
		w.said.tally.add(&w.scan.tally)
	}
	w.scan = scanner{name: w.scan.name, keep: w.scan.keep[:0]}
}

func (w *eventWatch) end() (rest []byte, complete, failed bool) {
	w.event()
	return w.half, w.ended || !w.known, w.failed
}

func (w *eventWatch) told() told { return w.said }

// usage returns what the members that were found say of it.
func (s *scanner) usage() (u openai.Usage) {
	for _, m := range [...]member{memberUsage, memberResponseUsage, memberMessageUsage, memberUsageMetadata} {
		if text := s.found[m]; text != "" {
			u = most(u, readUsage(text))
		}
	}
	return u
}

func (s *scanner) model() string { return strings.Trim(s.found[memberModel], `"`) }

func (s *scanner) tier() string { return strings.Trim(s.found[memberTier], `"`) }

// most returns of each count the greater: events tell either part of a usage, or again what is known.
func most(a, b openai.Usage) openai.Usage {
	return openai.Usage{
		PromptTokens: max(a.PromptTokens, b.PromptTokens), CompletionTokens: max(a.CompletionTokens, b.CompletionTokens),
		TotalTokens: max(a.TotalTokens, b.TotalTokens), CachedTokens: max(a.CachedTokens, b.CachedTokens),
		CacheWriteTokens: max(a.CacheWriteTokens, b.CacheWriteTokens), PromptAudio: max(a.PromptAudio, b.PromptAudio),
		ReasoningTokens: max(a.ReasoningTokens, b.ReasoningTokens), CompletionAudio: max(a.CompletionAudio, b.CompletionAudio),
		HourWriteTokens: max(a.HourWriteTokens, b.HourWriteTokens), WritesSplit: a.WritesSplit || b.WritesSplit,
		Searches: max(a.Searches, b.Searches), SearchesTold: a.SearchesTold || b.SearchesTold,
	}
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
	if root.Get("promptTokenCount").Exists() { // Gemini's, which counts thoughts apart
		return openai.Usage{
			PromptTokens:     count("promptTokenCount") + count("toolUsePromptTokenCount"),
			CompletionTokens: count("candidatesTokenCount") + count("thoughtsTokenCount"),
			TotalTokens:      count("totalTokenCount"),
			CachedTokens:     count("cachedContentTokenCount"),
			ReasoningTokens:  count("thoughtsTokenCount"),
		}
	}
	searches := count("server_tool_use.web_search_requests")
	// Anthropic's and Bedrock's, which count apart what of the prompt has to do with a cache.
	read, written := count("cache_read_input_tokens", "cacheReadInputTokens"), count("cache_creation_input_tokens", "cacheWriteInputTokens")
	if read+written > 0 {
		hour := count("cache_creation.ephemeral_1h_input_tokens", `cacheDetails.#(ttl=="1h").inputTokens`)
		brief := count("cache_creation.ephemeral_5m_input_tokens", `cacheDetails.#(ttl=="5m").inputTokens`)
		return openai.Usage{
			PromptTokens: count("input_tokens", "inputTokens") + read + written, CompletionTokens: count("output_tokens", "outputTokens"),
			CachedTokens: read, CacheWriteTokens: written, HourWriteTokens: hour, WritesSplit: hour+brief > 0,
			Searches: searches, SearchesTold: searches > 0,
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
		Searches:         searches, SearchesTold: searches > 0,
	}
}
