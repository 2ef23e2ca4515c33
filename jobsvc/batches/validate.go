package batches

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"

	"go.uber.org/zap"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/jsonwalk"
	"github.com/modelgate/modelgate/internal/offered"
	"github.com/modelgate/modelgate/jobsvc/files"
	"github.com/modelgate/modelgate/jobsvc/job"
	"github.com/modelgate/modelgate/jobsvc/store"
)

const (
	maxLines    = 50_000
	maxModels   = 100 // that one batch names
	maxProblems = 100 // that are reported: the record has a bounded size
)

// A survey is what validation learns of an input.
type survey struct {
	lines    int
	models   map[string]int // by the first line that names them
	refers   bool           // a line may refer to what a provider keeps
	problems []Problem
}

// validate reads the input, and moves the batch on to in_progress or to failed.
func (w *work) validate(ctx context.Context) error {
	v, err := w.survey(ctx)
	if errors.Is(err, files.ErrMissing) {
		return w.close(ctx, lost, inputGone)
	}
	if err != nil {
		return err
	}
	if len(v.problems) == 0 {
		if err := w.checkModels(ctx, v); err != nil {
			return err
		}
	}
	if len(v.problems) > 0 {
		return w.fail(ctx, v.problems)
	}
	model := ""
	for name := range v.models {
		if len(v.models) == 1 {
			model = name
		}
	}
	native, err := w.nativeFor(ctx, model, v.refers)
	if err != nil {
		return err
	}
	return w.change(ctx, func(b *Batch, _ *store.Txn) error {
		if b.Status != job.BatchValidating {
			return nil // it was cancelled
		}
		b.Counts.Total, b.Model, b.Native = v.lines, model, native
		return b.to(job.BatchValidated, w.s.Now())
	})
}

// fail ends a batch that never ran.
func (w *work) fail(ctx context.Context, problems []Problem) error {
	return w.change(ctx, func(b *Batch, t *store.Txn) error {
		if b.Status != job.BatchValidating {
			return nil
		}
		b.Errors = problems
		return w.end(b, t, job.BatchInvalid)
	})
}

// survey reads the whole input, or as far as there are problems to tell.
func (w *work) survey(ctx context.Context) (*survey, error) {
	in := w.input()
	r, err := in.open(ctx, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }() // it was only read
	v := &survey{models: map[string]int{}}
	seen := make(map[[16]byte]struct{})
	p := parser{endpoint: in.endpoint}
	for l := newLines(r, roomIn(ctx)); len(v.problems) < maxProblems; {
		line, err := l.next()
		switch {
		case errors.Is(err, io.EOF):
			if v.lines == 0 {
				v.blame(Problem{Code: openai.CodeEmptyFile,
					Message: "The input file is empty. It must have one request on each line."}, 0)
			}
			return v, nil
		case errors.Is(err, errLong):
			v.lines++
			v.blame(Problem{Code: openai.CodeLineTooLong, Message: fmt.Sprintf("This line has more than %d bytes.", maxLine)},
				l.number)
			continue
		case err != nil:
			return nil, missing(err)
		}
		if v.lines++; v.lines > maxLines {
			v.problems = []Problem{{Code: openai.CodeTooManyTasks,
				Message: fmt.Sprintf("The input file has more than %d requests. Split it into several batches.", maxLines)}}
			return v, nil
		}
		q, problem := p.parse(line)
		if problem != nil {
			v.blame(*problem, l.number)
			continue
		}
		v.add(q, l.number, seen)
	}
	return v, nil
}

func (v *survey) blame(p Problem, line int) {
	p.Line = line
	v.problems = append(v.problems, p)
}

func (v *survey) add(r request, line int, seen map[[16]byte]struct{}) {
	customID := unquoted(r.customID)
	sum := sha256.Sum256(customID)
	hash := [16]byte(sum[:])
	if _, ok := seen[hash]; ok {
		v.blame(Problem{Code: openai.CodeDuplicateCustomID, Param: "custom_id",
			Message: fmt.Sprintf("The custom_id '%s' was used by an earlier line. Each line must have one of its own.",
				shortened(string(customID)))}, line)
	}
	seen[hash] = struct{}{}
	v.refers = v.refers || refers(r.body)
	if _, ok := v.models[r.model]; ok {
		return
	}
	if len(v.models) == maxModels {
		v.blame(Problem{Code: openai.CodeTooManyModels, Param: "body.model",
			Message: fmt.Sprintf("The lines name more than %d models. Split them into several batches.", maxModels)}, line)
	}
	v.models[r.model] = line
}

// refers reports whether the body of a line may refer to what a provider keeps. Of several members of one name,
// readers take different ones.
func refers(body []byte) bool {
	return !jsonwalk.Strict(body) || offered.Reference(body) != ""
}

// checkModels asks for each model whether the key may use it, and by which name it is planned.
func (w *work) checkModels(ctx context.Context, v *survey) error {
	planned := map[string]int{}
	for model, line := range v.models {
		name, err := w.s.Gateway.Find(ctx, w.rec.Value.Key, model)
		if unknown, ok := errors.AsType[*openai.Error](err); ok {
			v.blame(Problem{Code: openai.CodeModelNotFound, Param: "body.model", Message: unknown.Message}, line)
		} else if err != nil {
			return err
		}
		planned[name] = line
	}
	v.models = planned
	slices.SortFunc(v.problems, func(a, b Problem) int { return a.Line - b.Line })
	w.log.Debug("input read", zap.Int("lines", v.lines), zap.Int("models", len(v.models)))
	return nil
}
