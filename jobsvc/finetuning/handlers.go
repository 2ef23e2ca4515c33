package finetuning

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/httpapi"
	"github.com/modelgate/modelgate/jobsvc/config"
	"github.com/modelgate/modelgate/jobsvc/files"
	"github.com/modelgate/modelgate/jobsvc/job"
	"github.com/modelgate/modelgate/jobsvc/queue"
	"github.com/modelgate/modelgate/jobsvc/rest"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// Sizes of pages.
const (
	normalPage        = 20
	normalCheckpoints = 10
	maxPage           = 100
)

// An item has the queue's data about a job besides its id.
type item struct {
	Tenant store.Tenant `json:"tenant"`
}

func (s *Service) create(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	o, body, err := rest.ReadObject(w, r, maxBody)
	if err != nil {
		return err
	}
	again, err := rest.Idempotency(r, c, string(body))
	if err != nil {
		return err
	}
	_, err = rest.Create(w, r, c, s.Store, again, s.Now(), func(t *store.Txn) (any, error) {
		asked, err := parse(o, s.MaxSuffix)
		if err != nil {
			return nil, err
		}
		made, err := s.plan(r.Context(), c, asked)
		if err != nil {
			return nil, err
		}
		if err := s.takeFiles(r.Context(), t, made, asked); err != nil {
			return nil, err
		}
		return show(made), s.begin(t, made)
	})
	return err
}

// plan returns the record of a job that its model's provider can do.
func (s *Service) plan(ctx context.Context, c rest.Caller, r *request) (*store.Record[Job], error) {
	current := s.Config()
	if current == nil {
		return nil, notReady()
	}
	name, err := s.Gateway.Find(ctx, c.Key, r.model)
	unknown, missing := errors.AsType[*openai.Error](err)
	if err != nil && !missing {
		return nil, httpapi.WithCause(notReady(), err)
	}
	p, upstream, ok := current.Target(name)
	if !ok {
		candidates := ""
		if missing {
			candidates = strings.TrimPrefix(unknown.Message, openai.ModelNotFound(r.model).Message)
		}
		return nil, openai.CodeModelNotAvailable.On("model",
			"Model %s is not available for fine-tuning or does not exist.%s", r.model, candidates)
	}
	r.model = name
	if p.Vendor.FineTuning == nil {
		return nil, openai.CodeModelNotAvailable.On("model",
			"Model %s is not available for fine-tuning: its provider '%s' does not train models. %s", r.model,
			p.Config.GetName(), trainers(current))
	}
	made := &store.Record[Job]{Tenant: c.Tenant, ID: Kind.NewID(), Value: Job{
		Model: r.model, Suffix: r.suffix, Seed: rand.Int64N(maxSeed + 1), Method: r.method, Integrations: r.integrations,
		Metadata: r.metadata,
		Key:      c.Key, CreatedAt: s.Now().Unix(), Provider: p.Config.GetName(), Upstream: upstream, Base: r.model,
		Status: job.TuningValidating,
	}}
	if r.seed != nil {
		made.Value.Seed, made.Value.SeedGiven = *r.seed, true
	}
	if base := current.Models[r.model].GetFineTuned().GetBaseModel(); base != "" {
		made.Value.Base = base
	}
	// What cannot be stored in the end must not be paid for first.
	if err := configv1.Validate(modelOf(made, checkpointName(made.Value.name(c.Tenant, made.ID), math.MaxInt64), "any",
		s.Now()), nil).Err(); err != nil {
		return nil, openai.CodeModelNotAvailable.On("model",
			"Model %s cannot be fine-tuned here, because the model that is made could not be configured: %v", r.model, err)
	}
	return made, nil
}

func notReady() *openai.Error {
	return openai.CodeGatewayUnavailable.New("The gateway cannot look up the model at the moment. Please retry.").After(time.Second)
}

// trainers says which providers train.
func trainers(c *config.Config) string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(c.Providers)) {
		if c.Providers[name].Vendor.FineTuning != nil {
			names = append(names, name)
		}
	}
	if names == nil {
		return "None of the configured providers does."
	}
	return "Choose a model of one that does: " + strings.Join(names, ", ") + "."
}

// takeFiles reads what the job needs to know of its files and keeps them from being deleted.
func (s *Service) takeFiles(ctx context.Context, t *store.Txn, made *store.Record[Job], asked *request) error {
	training, err := s.file(ctx, t, made, "training_file", asked.training)
	if err != nil {
		return err
	}
	made.Value.Training = *training
	if asked.validation == "" {
		return nil
	}
	made.Value.Validation, err = s.file(ctx, t, made, "validation_file", asked.validation)
	return err
}

func (s *Service) file(ctx context.Context, t *store.Txn, made *store.Record[Job], param, id string) (*File, error) {
	f, err := files.Kind.Get(ctx, s.Store, made.Tenant, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, openai.CodeInvalidFile.On(param, "invalid %s: %s. There is no such file.", param, id)
	}
	if err != nil {
		return nil, err
	}
	if f.Value.Purpose != files.PurposeFineTune {
		return nil, openai.CodeInvalidFilePurpose.On(param,
			"invalid %s: %s. Its purpose is '%s'; upload it with the purpose '%s'.",
			param, id, f.Value.Purpose, files.PurposeFineTune)
	}
	files.Kind.Unchanged(t, f)
	if id != made.Value.Training.ID { // etcd refuses to write a key twice in a transaction
		t.Use(id, made.ID)
	}
	return &File{ID: id, Name: f.Value.Filename, Bytes: f.Value.Bytes}, nil
}

// begin puts a new job, with its first events, into a transaction.
func (s *Service) begin(t *store.Txn, made *store.Record[Job]) error {
	value, err := json.Marshal(item{made.Tenant})
	if err != nil {
		return err
	}
	for _, message := range own(made.ID, &made.Value) {
		s.note(t, made, "info", message)
	}
	Kind.Create(t, made)
	t.Room(store.Files, store.FileBytes) // for the results of its training, which are kept in any case
	t.Do(queue.Put(queue.Item{Kind: queueKind, ID: made.ID, Value: value}))
	return nil
}

// get returns a job of the caller's.
func (s *Service) get(r *http.Request, c rest.Caller) (*store.Record[Job], error) {
	id := r.PathValue("id")
	found, err := Kind.Get(r.Context(), s.Store, c.Tenant, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, openai.CodeFineTuneNotFound.On("fine_tune_id", "Could not find fine tune: %s", id)
	}
	return found, err
}

func (s *Service) retrieve(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	found, err := s.get(r, c)
	if err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusOK, show(found))
}

// A list is OpenAI's list object if it has no ids of its own.
type list[T any] struct {
	Object  string `json:"object"` // list
	Data    []T    `json:"data"`
	HasMore bool   `json:"has_more"`
}

func listOf[T any](l rest.List[T]) list[T] { return list[T]{l.Object, l.Data, l.HasMore} }

func (s *Service) list(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	page, err := rest.PageOf(r, normalPage, maxPage, false)
	if err != nil {
		return err
	}
	found, more, err := Kind.List(r.Context(), s.Store, c.Tenant, page, filter(r.URL.Query()))
	if err != nil {
		return rest.Cursor(err, page.After)
	}
	return httpapi.WriteJSON(w, http.StatusOK, listOf(rest.ListOf(found, more, show)))
}

// filter returns the jobs that the parameters ask for: all of metadata[key]=value hold, or metadata=null, which
// means jobs without any.
func filter(q url.Values) func(*store.Record[Job]) bool {
	want := map[string]string{}
	for name := range q {
		if key, ok := strings.CutPrefix(name, "metadata["); ok && strings.HasSuffix(key, "]") {
			want[strings.TrimSuffix(key, "]")] = q.Get(name)
		}
	}
	none := q.Get("metadata") == "null"
	if len(want) == 0 && !none {
		return nil
	}
	return func(r *store.Record[Job]) bool {
		if none && len(r.Value.Metadata) > 0 {
			return false
		}
		for key, value := range want {
			if got, ok := r.Value.Metadata[key]; !ok || got != value {
				return false
			}
		}
		return true
	}
}

func (s *Service) events(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	l, err := parts(s, r, c, eventKind, normalPage,
		func(*store.Record[Job]) func(*store.Record[Event]) eventObject { return showEvent })
	if err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusOK, listOf(l))
}

func (s *Service) checkpoints(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	l, err := parts(s, r, c, checkpointKind, normalCheckpoints, showCheckpoint)
	if err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusOK, l)
}

// parts returns a page of objects that belong to a job.
func parts[T, R any](s *Service, r *http.Request, c rest.Caller, kind store.Kind[R], normal int,
	show func(*store.Record[Job]) func(*store.Record[R]) T) (rest.List[T], error) {
	page, err := rest.PageOf(r, normal, maxPage, false)
	if err != nil {
		return rest.List[T]{}, err
	}
	of, err := s.get(r, c)
	if err != nil {
		return rest.List[T]{}, err
	}
	found, more, err := store.ListParts(r.Context(), s.Store, Kind, of, kind, page)
	if err != nil {
		return rest.List[T]{}, rest.Cursor(err, page.After)
	}
	return rest.ListOf(found, more, show(of)), nil
}
