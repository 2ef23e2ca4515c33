package finetuning

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/httpapi"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/jobsvc/job"
	"github.com/modelgate/modelgate/jobsvc/rest"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// maxTries is how often a client's request is tried while the job's worker writes at the same time.
const maxTries = 5

// change answers with a job as f changes it. F is called again if the job was written in the meantime; it fills the
// transaction, and changes nothing where it reports false.
func (s *Service) change(w http.ResponseWriter, r *http.Request, c rest.Caller,
	f func(*store.Txn, *store.Record[Job]) (bool, error)) error {
	for try := 1; ; try++ {
		found, err := s.get(r, c)
		if err != nil {
			return err
		}
		t := s.Store.Begin()
		changed, err := f(t, found)
		if err != nil {
			return err
		}
		if changed {
			Kind.Update(t, found)
			if err = t.Commit(r.Context()); errors.Is(err, store.ErrConflict) && try < maxTries {
				continue
			}
		}
		if err != nil {
			return err
		}
		return httpapi.WriteJSON(w, http.StatusOK, show(found))
	}
}

func completed(r *store.Record[Job]) error {
	return openai.BadRequest("", "Job has already completed: %s", r.ID)
}

// cancel cancels a job at once if nobody has begun it at its provider, and else has its worker ask the provider.
func (s *Service) cancel(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	return s.change(w, r, c, func(t *store.Txn, found *store.Record[Job]) (bool, error) {
		j := &found.Value
		switch {
		case j.Status.Over():
			return false, completed(found)
		case j.Cancelling || j.Outcome != nil: // it ends in any case
			return false, nil
		case !j.Remote.Creating:
			j.Outcome = &Outcome{Status: job.TuningCancelled}
			s.end(t, found)
		default:
			j.Ask, j.Cancelling = askCancel, true
		}
		return true, nil
	})
}

// pause has a job paused as soon as its provider has validated it: who has just created one need not wait for that.
func (s *Service) pause(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	return s.change(w, r, c, func(_ *store.Txn, found *store.Record[Job]) (bool, error) {
		return s.ask(found, askPause, job.TuningValidating, job.TuningQueued, job.TuningRunning)
	})
}

func (s *Service) resume(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	return s.change(w, r, c, func(_ *store.Txn, found *store.Record[Job]) (bool, error) {
		return s.ask(found, askResume, job.TuningPaused)
	})
}

// ask has the worker ask something of the provider, if the provider can do it, and the job is in one of the states.
func (s *Service) ask(found *store.Record[Job], what string, states ...job.TuningStatus) (bool, error) {
	j := &found.Value
	if j.Status.Over() {
		return false, completed(found)
	}
	current := s.Config()
	if current == nil {
		return false, notReady()
	}
	p := current.Providers[j.Provider]
	if p == nil {
		return false, openai.CodeUnsupportedOperation.New(
			"Cannot %s job %s: its provider '%s' is not configured any more. Ask your operator.", what, found.ID, j.Provider)
	}
	if _, ok := p.Vendor.FineTuning.(provider.Pauser); !ok {
		return false, openai.CodeUnsupportedOperation.New(
			"Cannot %s job %s: its provider '%s' can neither pause nor resume jobs. You can cancel it.", what, found.ID,
			j.Provider)
	}
	if j.Ask == what {
		return false, nil
	}
	for _, state := range states {
		if j.Status == state && !j.Cancelling && j.Outcome == nil {
			j.Ask = what
			return true, nil
		}
	}
	stands := fmt.Sprintf("its status is '%s'", j.Status)
	if j.Cancelling {
		stands = "it is being cancelled"
	}
	return false, openai.CodeInvalidJobState.New("Cannot %s job %s: %s.", what, found.ID, stands)
}
