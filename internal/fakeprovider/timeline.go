package fakeprovider

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// How long the parts of a job take, from its creation on: about three seconds in all.
const (
	validated  = 500 * time.Millisecond
	started    = time.Second
	perStep    = 200 * time.Millisecond
	steps      = 10
	checkpoint = 5 // the step after which the model is saved
	done       = started + steps*perStep
)

// A moment is how a job stands at a time, which follows from its id, the clock, and what was done to it.
type moment struct {
	job    *job
	status string
	ran    time.Duration // without pauses
	lost   time.Duration // in pauses that are over
	ended  time.Duration // after its creation, pauses included; once it is over
	code   string        // why it failed
	reason string
	param  string
}

// at returns how the job stands.
func (j *job) at(now time.Time, c control) moment {
	m := moment{job: j, lost: c.lost}
	until := now
	for _, stop := range []time.Time{c.cancelled, c.paused} { // it stands still from the first of them on
		if !stop.IsZero() && stop.Before(until) {
			until = stop
		}
	}
	m.ran = max(0, until.Sub(j.created())-c.lost)
	m.code, m.reason, m.param = j.reject()
	switch {
	case m.code != "" && m.ran >= validated:
		m.status, m.ended = "failed", validated+c.lost
	case m.ran >= done:
		m.status, m.ended = "succeeded", done+c.lost
	case !c.cancelled.IsZero():
		m.status, m.ended = "cancelled", c.cancelled.Sub(j.created())
	case !c.paused.IsZero():
		m.status = "paused"
	case m.ran < validated:
		m.status = "validating_files"
	case m.ran < started:
		m.status = "queued"
	default:
		m.status = "running"
	}
	return m
}

// reject returns why the job cannot train, as OpenAI's code, message and parameter, or nothing.
func (j *job) reject() (code, message, param string) {
	if code, message = j.file.reject(j.Method); code != "" {
		return code, message, "training_file"
	}
	if t, ok := readFileID(j.Validation); ok && t.Problem != "" {
		return "invalid_validation_file", t.faulty("validation"), "validation_file"
	}
	return "", "", ""
}

func (m *moment) over() bool {
	return m.status == "succeeded" || m.status == "failed" || m.status == "cancelled"
}

// unix returns the time at which the job had run so long, in seconds.
func (m *moment) unix(ran time.Duration) int64 { return m.job.created().Add(ran + m.lost).Unix() }

// step returns how many steps are done.
func (m *moment) step() int {
	if m.code != "" || m.ran < started {
		return 0
	}
	return min(steps, int((m.ran-started)/perStep))
}

// metrics returns what is measured after a step: a loss that falls, and an accuracy that rises.
func metrics(step int) map[string]any {
	round := func(x float64) float64 { return math.Round(x*1e4) / 1e4 }
	left := math.Exp(-0.35 * float64(step))
	return map[string]any{"step": step, "train_loss": round(0.1 + 2.4*left), "train_mean_token_accuracy": round(0.97 -
		0.5*left)}
}

// A log is a job's events, oldest first.
type log struct {
	*moment
	events []map[string]any
}

func (l *log) add(ran time.Duration, level, kind, message string, data any) {
	l.events = append(l.events, map[string]any{"object": "fine_tuning.job.event",
		"id":         fmt.Sprintf("ftevent-%s-%d", l.job.Nonce, len(l.events)),
		"created_at": l.unix(ran), "level": level, "type": kind, "message": message, "data": data})
}

func (l *log) say(ran time.Duration, message string) { l.add(ran, "info", "message", message, nil) }

// events returns the job's log, oldest first. What is in it stays as the job goes on, but for times before a pause.
func (m *moment) events() []map[string]any {
	l := log{moment: m}
	l.say(0,
		"This is a simulation: the built-in provider checks and counts the training file, but no model learns anything. "+
			"The model that is made puts around what it is told what all answers of the file begin and end with.")
	l.say(0, "Created fine-tuning job")
	l.say(0, "Validating training file")
	if m.ran >= validated && m.code == "" {
		l.say(validated, fmt.Sprintf("Files validated, moving job to queued state: %d examples, %d words",
			m.job.file.Examples, m.job.file.Tokens))
	}
	if m.ran >= started && m.code == "" {
		l.say(started, "Fine-tuning job started")
	}
	for step := 1; step <= m.step(); step++ {
		at, measured := started+time.Duration(step)*perStep, metrics(step)
		measured["total_steps"] = steps
		l.add(at, "info", "metrics", fmt.Sprintf("Step %d/%d: training loss=%.2f", step, steps, measured["train_loss"]),
			measured)
		if step == checkpoint {
			l.say(at, fmt.Sprintf("Checkpoint created at step %d", step))
		}
	}
	switch m.status {
	case "failed":
		l.add(validated, "error", "message", m.reason, map[string]any{"error_code": m.code})
	case "cancelled":
		l.say(m.ended-m.lost, "The job was cancelled")
	case "succeeded":
		l.say(done, "New fine-tuned model created")
		l.say(done, "The job has successfully completed")
	}
	return l.events
}

// checkpoints returns the models that were saved on the way.
func (m *moment) checkpoints() []map[string]any {
	if m.step() < checkpoint {
		return []map[string]any{}
	}
	return []map[string]any{{"object": "fine_tuning.job.checkpoint", "id": "ftckpt_" + m.job.Nonce,
		"created_at":                  m.unix(started + checkpoint*perStep),
		"fine_tuned_model_checkpoint": fmt.Sprintf("%s%s%d", m.job.makes(), checkpointOf, checkpoint),
		"fine_tuning_job_id":          m.job.id(),
		"step_number":                 checkpoint, "metrics": metrics(checkpoint)}}
}

// object returns the job as OpenAI writes it.
func (m *moment) object() map[string]any {
	j := m.job
	hyperparameters := map[string]any{"n_epochs": j.Epochs, "batch_size": j.BatchSize, "learning_rate_multiplier": 1}
	o := map[string]any{
		"object": "fine_tuning.job", "id": j.id(), "created_at": j.created().Unix(), "model": j.Model, "status": m.status,
		"seed":          j.Seed,
		"training_file": j.file.id(), "validation_file": nil, "organization_id": "org-echo",
		"hyperparameters": hyperparameters,
		"method":          map[string]any{"type": j.Method, j.Method: map[string]any{"hyperparameters": hyperparameters}},
		"error":           nil, "fine_tuned_model": nil, "finished_at": nil, "trained_tokens": nil, "estimated_finish": nil,
		"result_files": []string{}, "integrations": []any{}, "user_provided_suffix": nil,
	}
	if j.Validation != "" {
		o["validation_file"] = j.Validation
	}
	if j.Suffix != "" {
		o["user_provided_suffix"] = j.Suffix
	}
	switch {
	case m.over():
		o["finished_at"] = j.created().Add(m.ended).Unix()
	case m.status == "running":
		o["estimated_finish"] = m.unix(done)
	}
	switch m.status {
	case "failed":
		o["error"] = map[string]any{"code": m.code, "message": m.reason, "param": m.param}
	case "succeeded":
		o["fine_tuned_model"], o["trained_tokens"] = j.makes(), j.file.Tokens*j.Epochs
		o["result_files"] = []string{j.result()}
	}
	return o
}

// csv returns the metrics of all steps.
func (m *moment) csv() string {
	var b strings.Builder
	b.WriteString("step,train_loss,train_mean_token_accuracy\n")
	for step := 1; step <= m.step(); step++ {
		row := metrics(step)
		fmt.Fprintf(&b, "%d,%v,%v\n", step, row["train_loss"], row["train_mean_token_accuracy"])
	}
	return b.String()
}

// newestFirst returns a list the other way round.
func newestFirst(list []map[string]any) []map[string]any {
	out := slices.Clone(list)
	slices.Reverse(out)
	return out
}
