package fakeprovider

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

const (
	minExamples = 10      // fewer train nothing, at OpenAI too
	maxLine     = 4 << 20 // bytes of one example
	maxStyle    = 64      // bytes of the shared prefix or suffix of all answers
)

// Kinds of examples.
const (
	kindChat       = "chat"
	kindCompletion = "completion"
	kindPreference = "dpo"
)

// A training is the result of reading a training file: nothing else is kept of it. It travels in the file's id.
type training struct {
	Created  int64  `json:"c"` // Unix time in milliseconds
	Examples int    `json:"n"`
	Tokens   int64  `json:"t"` // words
	Kind     string `json:"k,omitempty"`
	Style    style  `json:"y"`
	Problem  string `json:"p,omitempty"` // of the first line that has one
	Line     int    `json:"l,omitempty"` // its number, from 1
	Nonce    string `json:"x"`
}

// A style is what all answers of a training file begin and end with.
type style struct {
	Before string `json:"b,omitempty"`
	After  string `json:"a,omitempty"`
}

// reject returns why the file cannot be trained with for a method, as OpenAI's code and message, or nothing.
func (t *training) reject(method string) (code, message string) {
	switch {
	case t.Problem != "":
		return "invalid_training_file", t.faulty("training")
	case t.Examples < minExamples:
		return "invalid_n_examples", fmt.Sprintf("Training file has %d example(s), but must have at least %d examples.",
			t.Examples, minExamples)
	case (method == kindPreference) != (t.Kind == kindPreference):
		return "invalid_training_file",
			"The job failed due to an invalid training file. Its examples are not those of the method " + method + "."
	}
	return "", ""
}

// faulty says which line of a file of a kind has a problem.
func (t *training) faulty(kind string) string {
	return fmt.Sprintf("The job failed due to an invalid %s file. Line %d: %s", kind, t.Line, t.Problem)
}

// readTraining reads a training file to its end. Blank lines, a byte order mark and CRLF are allowed. An error is the
// reader's.
func readTraining(r io.Reader) (training, error) {
	var t training
	var s styleFinder
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	number := 0
	for ; lines.Scan(); number++ {
		line := lines.Bytes()
		if number == 0 {
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		if line = bytes.TrimSpace(line); len(line) == 0 || t.Problem != "" {
			continue
		}
		e, problem := readExample(line)
		if problem == "" && t.Kind != "" && e.kind != t.Kind {
			problem = "It is not an example of the same kind as those before it."
		}
		if problem != "" {
			t.Problem, t.Line = problem, number+1
			continue
		}
		t.Kind = e.kind
		t.Examples++
		t.Tokens += e.tokens
		s.add(e.answer)
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		if t.Problem == "" {
			t.Problem, t.Line = fmt.Sprintf("It is longer than %d MB.", maxLine>>20), number+1
		}
		if _, err := io.Copy(io.Discard, r); err != nil {
			return training{}, fmt.Errorf("reading a training file: %w", err)
		}
	case err != nil:
		return training{}, fmt.Errorf("reading a training file: %w", err)
	}
	t.Style = s.style()
	return t, nil
}

// A trainingExample is one line of a training file.
type trainingExample struct {
	kind, answer string
	tokens       int64
}

// readExample reads a line, and says what is wrong with it otherwise.
func readExample(line []byte) (e trainingExample, problem string) {
	if !gjson.ValidBytes(line) || line[0] != '{' {
		return e, "It is not a JSON object."
	}
	root := gjson.ParseBytes(line)
	prompt, completion := root.Get("prompt"), root.Get("completion")
	switch {
	case root.Get("messages").Exists():
		e.kind = kindChat
		e.answer, problem = e.messages(root.Get("messages"), "messages")
		if problem == "" && e.answer == "" && !hasAnswer(root.Get("messages")) {
			problem = "It has no message of the assistant."
		}
	case root.Get("input").Exists():
		e.kind = kindPreference
		if _, problem = e.messages(root.Get("input.messages"), "input.messages"); problem != "" {
			return e, problem
		}
		if _, problem = e.messages(root.Get("non_preferred_output"), "non_preferred_output"); problem != "" {
			return e, problem
		}
		e.answer, problem = e.messages(root.Get("preferred_output"), "preferred_output")
	case prompt.Type == gjson.String && completion.Type == gjson.String:
		e.kind, e.answer = kindCompletion, completion.Str
		e.tokens = words(prompt.Str) + words(completion.Str)
	default:
		problem = "It has neither messages, nor input with preferred_output and non_preferred_output, nor prompt and completion."
	}
	return e, problem
}

// messages counts a list's words, and returns what its last message of the assistant says.
func (e *trainingExample) messages(list gjson.Result, name string) (answer, problem string) {
	if !list.IsArray() || len(list.Array()) == 0 {
		return "", "Its " + name + " is not a list of messages."
	}
	for _, m := range list.Array() {
		role := m.Get("role").Str
		switch role {
		case "system", "developer", "user", "assistant", "tool", "function":
		default:
			return "", "Its " + name + " has a message with an unknown role."
		}
		text := contentText(m.Get("content"))
		e.tokens += words(text)
		if role == "assistant" {
			answer = text
		}
	}
	return answer, ""
}

func hasAnswer(messages gjson.Result) bool {
	return messages.Get(`#(role=="assistant")`).Exists()
}

// contentText returns the text of a message's content, a string or parts.
func contentText(content gjson.Result) string {
	if content.IsArray() {
		var parts []string
		for _, p := range content.Get("#.text").Array() {
			parts = append(parts, p.String())
		}
		return strings.Join(parts, " ")
	}
	return content.String()
}

func words(text string) int64 { return int64(len(strings.Fields(text))) }

// A styleFinder finds what texts have in common at their ends.
type styleFinder struct {
	before, after string
	shortest      int // bytes; of the texts so far
	seen          bool
}

func (s *styleFinder) add(text string) {
	head, tail := text[:min(len(text), maxStyle)], text[max(0, len(text)-maxStyle):]
	if !s.seen {
		s.before, s.after, s.shortest, s.seen = head, tail, len(text), true
		return
	}
	n := 0
	for n < min(len(s.before), len(head)) && s.before[n] == head[n] {
		n++
	}
	m := 0
	for m < min(len(s.after), len(tail)) && s.after[len(s.after)-1-m] == tail[len(tail)-1-m] {
		m++
	}
	s.before, s.after, s.shortest = s.before[:n], s.after[len(s.after)-m:], min(s.shortest, len(text))
}

// style returns both ends, which do not overlap in any of the texts and hold whole runes.
func (s *styleFinder) style() style {
	before, after := s.before, s.after
	for before != "" && !utf8.ValidString(before) {
		before = before[:len(before)-1]
	}
	after = after[max(0, len(before)+len(after)-s.shortest):]
	for after != "" && !utf8.ValidString(after) {
		after = after[1:]
	}
	return style{before, after}
}
