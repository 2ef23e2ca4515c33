package cohere

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/turns"
	"github.com/modelgate/modelgate/internal/reported"
)

// answer implements provider.Answer.
type answer struct {
	names *turns.Names // the client's names of tools
}

// A chatResponse is a complete answer.
type chatResponse struct {
	ID           string          `json:"id"`
	Message      responseMessage `json:"message"`
	FinishReason string          `json:"finish_reason"`
	Usage        reported.Usage  `json:"usage"`
	Logprobs     []logprobs      `json:"logprobs"`
	Error        jsontext.Value  `json:"error"`
}

type responseMessage struct {
	Content   []contentBlock `json:"content"`
	ToolPlan  string         `json:"tool_plan"`
	ToolCalls []toolCall     `json:"tool_calls"`
	Citations []citation     `json:"citations"`
}

// A contentBlock is one block of an answer, or a piece of one. Of blocks that the vendor may add one day, the members
// may mean anything.
type contentBlock struct {
	Text     jsontext.Value `json:"text"`
	Thinking jsontext.Value `json:"thinking"`
}

type toolCall struct {
	ID       string `json:"id"`
	Function struct {
		Name      string         `json:"name"`
		Arguments jsontext.Value `json:"arguments"`
	} `json:"function"`
}

// arguments returns what the model called the tool with. A tool without parameters is called with nothing, or with
// null.
func (c *toolCall) arguments() string {
	v := c.Function.Arguments
	s := string(v)
	if v.Kind() == '"' {
		unquoted, _ := jsontext.AppendUnquote(nil, v) // it was read as JSON before
		s = string(unquoted)
	}
	if t := strings.TrimSpace(s); t == "" || t == "null" {
		return "{}"
	}
	return s
}

// Decode implements provider.Answer.
func (a answer) Decode(body []byte, asked chat.Asked, out chat.Sink) error {
	// The message is an object in an answer, and a string in an error.
	var head struct {
		Message jsontext.Value `json:"message"`
	}
	if err := json.Unmarshal(body, &head, provider.Lenient); err != nil {
		return fmt.Errorf("%w: %w", provider.ErrNotAnAnswer, err)
	}
	if head.Message.Kind() != '{' {
		if readError(body).message != "" {
			return inBand(body)
		}
		return fmt.Errorf("%w: it has no message", provider.ErrNotAnAnswer)
	}
	var r chatResponse
	if err := json.Unmarshal(body, &r, provider.Lenient); err != nil {
		return fmt.Errorf("%w: %w", provider.ErrNotAnAnswer, err)
	}
	if err := failure(r.FinishReason, stringOf(r.Error)); err != nil {
		return err
	}
	if len(r.Message.ToolCalls) > provider.MaxOpen {
		return provider.ErrTooManyOpen
	}
	u := r.Usage.OpenAI()
	r.ID = provider.ID(r.ID)
	answer := chat.Answer{ID: r.ID, Usage: u, Choices: []chat.Choice{r.choice(a.names)}}
	if answer.ID == "" {
		answer.ID = newID()
	}
	answer.Emit(out)
	return nil
}

func (r *chatResponse) choice(names *turns.Names) chat.Choice {
	var text, reasoning strings.Builder
	var offsets []int // where each block of the content begins in the text
	characters := 0
	for _, b := range r.Message.Content {
		offsets = append(offsets, characters)
		reasoning.WriteString(stringOf(b.Thinking))
		said := stringOf(b.Text)
		text.WriteString(said)
		characters += utf8.RuneCountInString(said)
	}
	reasoning.WriteString(r.Message.ToolPlan)
	c := chat.Choice{Text: text.String(), Reasoning: reasoning.String()}
	for i := range r.Message.ToolCalls {
		t := &r.Message.ToolCalls[i]
		if t.ID == "" {
			t.ID = madeID(r.ID, i)
		}
		c.Calls = append(c.Calls, chat.Call{ID: t.ID, Name: names.Client(t.Function.Name), Arguments: t.arguments()})
	}
	var annotations []byte
	for i := range r.Message.Citations {
		annotations = r.Message.Citations[i].appendTo(annotations, offsets)
	}
	if annotations != nil {
		c.Annotations = append(annotations, ']')
	}
	if len(r.Logprobs) > 0 {
		c.Logprobs = appendLogprobs(nil, r.Logprobs...)
	}
	c.FinishReason = finishReason(r.FinishReason, len(c.Calls) > 0)
	return c
}

// Stream implements provider.Answer.
func (a answer) Stream(chat.Asked) provider.Stream { return &stream{names: a.names} }

// finishReason returns OpenAI's finish reason for the vendor's.
func finishReason(reason string, calls bool) string {
	switch strings.ToUpper(reason) {
	case "MAX_TOKENS", "ERROR_LIMIT":
		return "length"
	case "ERROR_TOXIC":
		return "content_filter"
	}
	if calls {
		return "tool_calls"
	}
	return "stop"
}

// A citation says which part of the text rests on which sources.
type citation struct {
	Start        int      `json:"start"`
	End          int      `json:"end"`
	Sources      []source `json:"sources"`
	ContentIndex int      `json:"content_index"`
	Type         string   `json:"type"`
}

type source struct {
	ID       string `json:"id"`
	Document struct {
		Title jsontext.Value `json:"title"`
		URL   jsontext.Value `json:"url"`
	} `json:"document"`
}

// appendTo appends the citation as OpenAI's annotations, one for each source, to a JSON array that is not closed
// yet. It leaves out citations of the plan or of thinking, because the client does not have their text.
func (c *citation) appendTo(dst []byte, offsets []int) []byte {
	if c.Type != "" && c.Type != "TEXT_CONTENT" {
		return dst
	}
	offset := 0
	if c.ContentIndex > 0 && c.ContentIndex < len(offsets) {
		offset = offsets[c.ContentIndex]
	}
	for _, s := range c.Sources {
		if dst == nil {
			dst = append(dst, '[')
		} else {
			dst = append(dst, ',')
		}
		title := stringOf(s.Document.Title)
		if title == "" {
			title = s.ID
		}
		dst = fmt.Appendf(dst, `{"type":"url_citation","url_citation":{"start_index":%d,"end_index":%d,"title":`,
			offset+c.Start, offset+c.End)
		dst = openai.AppendString(dst, title)
		dst = openai.AppendString(append(dst, `,"url":`...), stringOf(s.Document.URL))
		dst = append(dst, "}}"...)
	}
	return dst
}

func stringOf(v jsontext.Value) string {
	if v.Kind() != '"' {
		return ""
	}
	s, _ := jsontext.AppendUnquote(nil, v) // it was read as JSON before
	return string(s)
}

// logprobs are the log probabilities of the tokens in a piece of text.
type logprobs struct {
	Text     string    `json:"text"`
	Logprobs []float64 `json:"logprobs"`
}

// appendLogprobs appends OpenAI's logprobs object. The vendor does not say which token is which part of a piece: the
// piece stands for them all, with the sum of their logarithms.
func appendLogprobs(dst []byte, pieces ...logprobs) []byte {
	dst = append(dst, `{"content":[`...)
	for i, p := range pieces {
		if i > 0 {
			dst = append(dst, ',')
		}
		sum := 0.0
		for _, l := range p.Logprobs {
			sum += l
		}
		value, err := json.Marshal(sum)
		if err != nil {
			value = []byte("-9999") // OpenAI's word for a token that is most unlikely
		}
		dst = openai.AppendString(append(dst, `{"token":`...), p.Text)
		dst = append(append(append(dst, `,"logprob":`...), value...), `,"bytes":null,"top_logprobs":[]}`...)
	}
	return append(dst, `],"refusal":null}`...)
}
