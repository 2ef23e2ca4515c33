package inspect

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/cmd/modelgate/cmdline"
	"github.com/modelgate/modelgate/cmd/modelgate/console"
	"github.com/modelgate/modelgate/internal/guard"
	"github.com/modelgate/modelgate/internal/offered"
)

// GuardCmd is the command guard.
type GuardCmd struct {
	Test guardTestCmd `cmd:"" help:"Try guardrails on examples, offline. Exits with 1 if a rule finds too much or too little."`
}

type guardTestCmd struct {
	adminflags.OutputFlags
	Filename []string `short:"f" required:"" sep:"none" placeholder:"FILE" help:"File with Guardrails, YAML or JSON. May be given more than once."`
	Examples string   `arg:"" placeholder:"EXAMPLES" help:"File of examples, or - for standard input: each line is {\"text\": \"...\", \"finds\": [\"GUARDRAIL/RULE\", ...]}. With \"request\" in place of \"text\", rules with allowed_tools look at the tools of a request's body."`
}

// Help is shown below the flags' summary.
func (guardTestCmd) Help() string {
	return "Example:\n  echo '{\"text\": \"write to ann@example.com\", \"finds\": [\"personal/email\"]}' | modelgate guard test -f guardrails.yaml -"
}

// An example is a text or the body of a request, and the rules that must find something in it.
type example struct {
	Text    *string         `json:"text"`
	Request json.RawMessage `json:"request"`
	Finds   []string        `json:"finds"`
}

// isOne reports whether there is either a text, or the body of a request.
func (e *example) isOne() bool {
	if e.Request == nil {
		return e.Text != nil
	}
	return e.Text == nil && openai.CheckObject(e.Request) == nil
}

// foundBy returns the names of the rules that find something in the example.
func (e *example) foundBy(rails guard.Rails) ([]string, error) {
	if e.Text != nil {
		return rails.Try(context.Background(), *e.Text)
	}
	return rails.TryTools(offered.Read(e.Request)), nil
}

// A ruleResult is how a rule did.
type ruleResult struct {
	Rule      string   `json:"rule"`
	Right     int      `json:"right"`
	Missed    int      `json:"missed"`
	TooMuch   int      `json:"too_much"`
	Precision *float64 `json:"precision"`       // null: it found nothing
	Recall    *float64 `json:"recall"`          // null: there was nothing to find
	Wrong     []int    `json:"wrong,omitempty"` // lines of examples
}

var errGuard = errors.New("rules find too much or too little")

// Run tries every rule on every example. It prints no text of an example.
func (c guardTestCmd) Run(stdout io.Writer) error {
	docs, err := cmdline.FileFlags{Filename: c.Filename}.ReadSome(os.Stdin)
	if err != nil {
		return err
	}
	rails, err := guard.CompileObjects(cmdline.ObjectsOf(docs))
	if err != nil {
		return err
	}
	if len(rails.Names()) == 0 {
		return admincli.Misused("the files have no Guardrail with a rule that looks at texts or tools")
	}
	text, err := cmdline.ReadFile(c.Examples, os.Stdin)
	if err != nil {
		return err
	}
	results, err := try(rails, text)
	if err != nil {
		return err
	}
	if err := c.Show(stdout, results, func(out *console.Text) { showResults(out, results) }); err != nil {
		return err
	}
	if slices.ContainsFunc(results, func(r ruleResult) bool { return r.Missed+r.TooMuch > 0 }) {
		return errGuard
	}
	return nil
}

// try returns how each rule did on the lines of a text.
func try(rails guard.Rails, text []byte) ([]ruleResult, error) {
	names := rails.Names()
	results := make([]ruleResult, len(names))
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 16<<20)
	n := 0
	for lines.Scan() {
		n++
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var e example
		d := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		d.DisallowUnknownFields()
		if err := d.Decode(&e); err != nil || !e.isOne() {
			return nil, admincli.Misused("line %d of the examples must be {\"text\": \"...\", \"finds\": [...]}, or have the \"request\" of a client", n)
		}
		for _, name := range e.Finds {
			if !slices.Contains(names, name) {
				return nil, admincli.Misused("line %d of the examples: there is no rule %s", n, name)
			}
		}
		found, err := e.foundBy(rails)
		if err != nil {
			return nil, fmt.Errorf("line %d of the examples: %w", n, err)
		}
		for i, name := range names {
			results[i].Rule = name
			results[i].add(slices.Contains(e.Finds, name), slices.Contains(found, name), n)
		}
	}
	if n == 0 && lines.Err() == nil {
		return nil, admincli.Misused("there are no examples")
	}
	for i := range results {
		results[i].rate()
	}
	return results, lines.Err()
}

func (r *ruleResult) add(want, got bool, line int) {
	switch {
	case want && got:
		r.Right++
	case want:
		r.Missed++
	case got:
		r.TooMuch++
	}
	if want != got {
		r.Wrong = append(r.Wrong, line)
	}
}

func (r *ruleResult) rate() {
	ratio := func(of int) *float64 {
		if of == 0 {
			return nil
		}
		v := float64(r.Right) / float64(of)
		return &v
	}
	r.Precision, r.Recall = ratio(r.Right+r.TooMuch), ratio(r.Right+r.Missed)
}

func showResults(out *console.Text, results []ruleResult) {
	percent := func(v *float64) string {
		if v == nil {
			return "-"
		}
		return fmt.Sprintf("%.1f %%", 100**v)
	}
	out.Table("No rule has an example.",
		[]string{"RULE", "RIGHT", "MISSED", "TOO MUCH", "PRECISION", "RECALL", "WRONG LINES"},
		admincli.Rows(results, func(r ruleResult) []string {
			wrong := "-"
			if len(r.Wrong) > 0 {
				wrong = fmt.Sprint(r.Wrong[:min(len(r.Wrong), 10)])
			}
			return []string{r.Rule, strconv.Itoa(r.Right), strconv.Itoa(r.Missed), strconv.Itoa(r.TooMuch),
				percent(r.Precision), percent(r.Recall), wrong}
		}))
}
