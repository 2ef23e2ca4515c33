package gemini

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
)

type tokenProb struct {
	Token   string         `json:"token"`
	LogProb jsontext.Value `json:"logProbability"`
}

// logprobs gives the client the log probabilities of a candidate.
func (c *collector) logprobs(index int, from *logprobs) {
	var dst []byte
	for i := range from.Chosen {
		dst = from.Chosen[i].append(appendElement(dst))
		dst = append(dst, `,"top_logprobs":[`...)
		if i < len(from.Top) {
			for j := range from.Top[i].Candidates {
				if j > 0 {
					dst = append(dst, ',')
				}
				dst = append(from.Top[i].Candidates[j].append(dst), '}')
			}
		}
		dst = append(dst, "]}"...)
	}
	switch ch := &c.choices[index]; {
	case len(dst) == 0:
	case c.out != nil:
		// The text of the tokens was sent before.
		c.out.Put(chat.Event{Kind: chat.KindText, Choice: index, Logprobs: wrapLogprobs(dst)})
	default:
		ch.logprobs = append(appendElement(ch.logprobs), dst...)
	}
}

// append appends the token as an object that is not closed.
func (t *tokenProb) append(dst []byte) []byte {
	dst = openai.AppendString(append(dst, `{"token":`...), t.Token)
	dst = append(dst, `,"logprob":`...)
	if t.LogProb.Kind() == '0' {
		dst = append(dst, t.LogProb...)
	} else {
		dst = append(dst, '0') // proto3 leaves out what is 0
	}
	dst = append(dst, `,"bytes":[`...)
	for i, b := range []byte(t.Token) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(dst, uint64(b), 10)
	}
	return append(dst, ']')
}

func wrapLogprobs(elements []byte) jsontext.Value {
	if len(elements) == 0 {
		return nil
	}
	return append(append([]byte(`{"content":[`), elements...), `],"refusal":null}`...)
}
