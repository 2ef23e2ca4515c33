package gemini

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/reported"
)

// A collector adds up an answer of one piece or of many. With a sink it tells each piece as it comes, and
// keeps only what later pieces refer to.
type collector struct {
	answer  *Answer
	out     chat.Sink // nil if the whole answer is wanted
	created int64
	carrier openai.Carrier
	next    response // the one that is being read, kept so that none is allocated

	id      string
	choices []choice
	told    reported.Usage
	usage   openai.Usage
	tier    string
	blocked *promptFeedback // why the prompt was refused
}

// A choice is the state of one candidate.
type choice struct {
	text     []byte          // all of it: citations count its bytes
	ids      []string        // of its calls
	known    map[string]bool // the same
	searched int             // what was gone through for its annotations, in bytes
	open     *openCall       // the one whose arguments come in pieces
	media    bool            // it has an image or speech
	searches int64           // of the web, that it rests on
	refusal  string
	finish   enum
	message  string // the vendor's explanation of finish

	annotations, images []byte // elements of JSON arrays

	// What follows is collected only without a sink.
	logprobs  []byte // elements of a JSON array
	calls     []chat.Call
	reasoning []byte
	audio     []byte
	audioType string
}

// maxChoices bounds the index of a candidate. OpenAI's n goes no further.
const maxChoices = 128

// take takes in the next response. An error that the vendor sends in band is an *openai.Error.
func (c *collector) take(data []byte) error {
	c.next = response{}
	r := &c.next
	if err := json.Unmarshal(data, r, provider.Lenient); err != nil {
		return fmt.Errorf("%w: %w", provider.ErrNotAnAnswer, err)
	}
	if len(r.Error) > 0 && r.Error.Kind() != 'n' {
		return readError(gjson.ParseBytes(r.Error)).decode(0, nil)
	}
	if r.Candidates == nil && r.PromptFeedback.BlockReason == "" && r.Usage == nil {
		return nil // such as a piece of a stream with the ratings of the prompt alone
	}
	c.begin(r.ResponseID, data)
	if r.PromptFeedback.BlockReason != "" {
		c.blocked = &promptFeedback{r.PromptFeedback.BlockReason, r.PromptFeedback.Message}
	}
	if r.Usage != nil {
		c.count(r.Usage)
	}
	for i := range r.Candidates {
		candidate := &r.Candidates[i]
		index := i
		if candidate.Index != nil {
			index = int(*candidate.Index)
		}
		if index < 0 || index >= maxChoices {
			return fmt.Errorf("%w: a candidate has the index %d", provider.ErrNotAnAnswer, index)
		}
		c.candidate(index, candidate)
	}
	c.countSearches()
	return nil
}

// countSearches adds to the usage how often the web was searched, as far as the vendor tells: it does not always.
func (c *collector) countSearches() {
	n := int64(0)
	for i := range c.choices {
		n += c.choices[i].searches
	}
	if n == 0 || c.usage.IsZero() {
		return
	}
	c.usage.Searches, c.usage.SearchesKnown = n, true
	if c.out != nil {
		c.out.Put(chat.Usage(c.usage))
	}
}

// begin gives the answer its id: the vendor's, or else one that follows from its first piece.
func (c *collector) begin(id string, data []byte) {
	if c.id != "" {
		return
	}
	if c.id = provider.ID(id); c.id == "" {
		c.id = "chatcmpl-" + digest(string(data), strconv.FormatInt(c.created, 10))
	}
	if c.out != nil {
		c.out.Put(chat.Begin(c.id))
	}
}

// digest returns an identifier that follows from its arguments.
func digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:12])
}

// count takes in a count, which covers everything so far. One without numbers says nothing.
func (c *collector) count(u *reported.Usage) {
	c.told.Later(u)
	c.tier = cmp.Or(u.Tier(), c.tier)
	if c.out != nil {
		c.out.Put(chat.Tier(c.tier))
	}
	if counted := c.told.OpenAI(); !counted.IsZero() {
		c.usage = counted
		if c.out != nil {
			c.out.Put(chat.Usage(counted))
		}
	}
}

func (c *collector) candidate(index int, from *candidate) {
	for len(c.choices) <= index {
		c.choices = append(c.choices, choice{})
	}
	ch := &c.choices[index]
	for i := range from.Content.Parts {
		c.part(index, &from.Content.Parts[i])
	}
	if from.LogprobsResult != nil {
		c.logprobs(index, from.LogprobsResult)
	}
	if from.FinishReason != "" {
		ch.finish, ch.message = from.FinishReason, from.FinishMessage
	}
	c.cite(index, from)
}

// part takes in one part. Those about tools that the vendor runs itself (executableCode, codeExecutionResult,
// toolCall, toolResponse) are not the client's to answer.
func (c *collector) part(index int, p *answerPart) {
	ch := &c.choices[index]
	switch {
	case p.FunctionCall != nil:
		c.call(index, p)
	case p.Thought && p.Text != "":
		if c.out != nil {
			c.out.Put(chat.Reasoning(index, p.Text))
		} else {
			ch.reasoning = append(ch.reasoning, p.Text...)
		}
	case p.Thought:
	case p.Text != "":
		ch.text = append(ch.text, p.Text...)
		if c.out != nil {
			c.out.Put(chat.Text(index, p.Text))
		}
	case p.InlineData != nil:
		c.media(index, p.InlineData)
	case p.FileData != nil && p.FileData.URI != "":
		c.image(index, p.FileData.URI)
	}
}

// complete ends the answer: calls that are still open, and what stands for an answer that was refused. An answer with
// nothing in it, that failed or does not say why, is an error.
func (c *collector) complete() error {
	if len(c.choices) == 0 {
		c.choices = append(c.choices, choice{})
		if c.blocked != nil {
			c.choices[0].refusal = c.blocked.refusal()
		}
	}
	failed := true
	for i := range c.choices {
		c.endCall(i)
		ch := &c.choices[i]
		if ch.finish == "" && c.blocked != nil {
			ch.finish = "SAFETY"
		}
		empty := len(ch.text) == 0 && len(ch.ids) == 0 && !ch.media
		_, fails := failures[ch.finish]
		failed = failed && empty && fails
	}
	first := &c.choices[0]
	switch {
	case !failed:
		return nil
	case first.finish == "":
		return fmt.Errorf("%w: it has neither content nor a reason for finishing", provider.ErrNotAnAnswer)
	case first.message == "":
		first.message = "The model's answer could not be used. Send the request again."
	}
	first.finish = failures[first.finish]
	return &openai.Error{Status: http.StatusBadGateway, Type: openai.TypeServer,
		Code: openai.Code(strings.ToLower(string(first.finish))), Message: first.message}
}

// failures are the reasons for finishing where the model itself went wrong, by how services write them that are asked
// for enumerations as numbers, if that means the same everywhere.
var failures = map[enum]enum{
	"": "", "MALFORMED_FUNCTION_CALL": "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL": "UNEXPECTED_TOOL_CALL",
	"TOO_MANY_TOOL_CALLS": "TOO_MANY_TOOL_CALLS", "NO_IMAGE": "NO_IMAGE", "IMAGE_OTHER": "IMAGE_OTHER",
	"MALFORMED_RESPONSE": "MALFORMED_RESPONSE", "MISSING_THOUGHT_SIGNATURE": "MISSING_THOUGHT_SIGNATURE",
	"OTHER": "OTHER", "5": "OTHER",
	"FINISH_REASON_UNSPECIFIED": "FINISH_REASON_UNSPECIFIED", "0": "FINISH_REASON_UNSPECIFIED",
}

// finishReasons maps the vendor's reasons for finishing. All others, also ones to come, are stop, or calls. The
// numbers come from services that are asked for enumerations as numbers.
var finishReasons = map[enum]string{
	"MAX_TOKENS": "length", "2": "length",
	"SAFETY": "content_filter", "3": "content_filter",
	"RECITATION": "content_filter", "4": "content_filter",
	// not the same here and on Vertex AI, but all of this kind
	"6": "content_filter", "7": "content_filter", "8": "content_filter",
	"LANGUAGE": "content_filter", "BLOCKLIST": "content_filter", "PROHIBITED_CONTENT": "content_filter",
	"SPII":         "content_filter",
	"IMAGE_SAFETY": "content_filter", "IMAGE_PROHIBITED_CONTENT": "content_filter", "IMAGE_RECITATION": "content_filter",
	"MODEL_ARMOR": "content_filter",
}

// finishReason returns OpenAI's finish reason. The vendor says STOP where the model waits for its calls.
func finishReason(vendor enum, calls bool) string {
	switch reason := finishReasons[vendor]; {
	case reason != "":
		return reason
	case calls:
		return "tool_calls"
	}
	return "stop"
}

// array returns the JSON array of elements, or nil if there are none.
func array(elements []byte) jsontext.Value {
	if len(elements) == 0 {
		return nil
	}
	return slices.Concat([]byte{'['}, elements, []byte{']'})
}

// appendElement appends what separates a JSON element from those before it.
func appendElement(elements []byte) []byte {
	if len(elements) > 0 {
		elements = append(elements, ',')
	}
	return elements
}
