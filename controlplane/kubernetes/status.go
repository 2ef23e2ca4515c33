package kubernetes

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/modelgate/modelgate/api/config/crd"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/timing"
)

const (
	// soon is how long a status waits for the data plane, so that it is written once.
	soon = 3 * time.Second
	// patience is how long the data plane is waited for before it is looked at who is missing.
	patience = 10 * time.Second
	// maxMessage is the most that the API server takes of a condition's message, and of an event's.
	maxMessage, maxEvent = 32768, 1024
)

// A wanted status is what an object is to say of itself.
type wanted struct {
	generation int64
	ref        configstore.Ref
	owner      configstore.Owner
	secret     string
	revision   int64
	conditions conditions
}

func (w *wanted) accepted() bool { return w.conditions[crd.Accepted].reason == reasonAccepted }

// statuses writes what became of objects. It is safe for concurrent use.
type statuses struct {
	options Options
	watches *watches
	queue   *queue
	awaits  chan int64 // revisions that were written

	mu     sync.Mutex // guards what follows
	wanted map[key]*wanted
	told   map[string]bool // troubles
}

func newStatuses(o Options, w *watches) *statuses {
	return &statuses{options: o, watches: w, queue: newQueue(), awaits: make(chan int64, 1), wanted: map[key]*wanted{},
		told: map[string]bool{}}
}

// run writes statuses until ctx ends.
func (s *statuses) run(ctx context.Context) {
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for ctx.Err() == nil {
				for _, k := range s.queue.take(ctx, 0, 1) {
					s.write(ctx, k)
				}
			}
		})
	}
	running.Go(func() { s.await(ctx) })
	running.Go(func() { s.recheck(ctx) })
	running.Wait()
}

// finish says what became of objects. Those that are stored are said to be programmed as soon as they are.
func (s *statuses) finish(ctx context.Context, outcomes []outcome) {
	newest := int64(0)
	for i := range outcomes {
		o := &outcomes[i]
		if o.object == nil {
			continue
		}
		w := &wanted{generation: o.object.GetGeneration(), secret: o.secret, revision: o.revision,
			conditions: conditionsOf(o)}
		if o.declared != nil {
			w.ref, w.owner = o.declared.Ref(), o.declared.Owner
		}
		s.mu.Lock()
		s.wanted[o.key] = w
		s.mu.Unlock()
		if w.accepted() && w.revision > 0 && o.err == nil {
			newest = max(newest, w.revision)
		} else {
			s.queue.add(o.key)
		}
	}
	if newest == 0 {
		return
	}
	select {
	case <-s.awaits:
	default:
	}
	select {
	case s.awaits <- newest:
	case <-ctx.Done():
	}
}

// await waits until the data plane has what was written, and has it said.
func (s *statuses) await(ctx context.Context) {
	revision, wait := int64(0), soon
	for {
		if revision == 0 {
			select {
			case <-ctx.Done():
				return
			case revision = <-s.awaits:
				wait = soon
			}
		}
		waiting, cancel := context.WithTimeout(ctx, wait)
		missing := s.options.Await(waiting, revision)
		cancel()
		if ctx.Err() != nil {
			return
		}
		s.queue.add(s.program(revision, missing)...)
		if len(missing) == 0 {
			revision = 0
			continue
		}
		wait = patience
		select {
		case revision = <-s.awaits:
			wait = soon
		default:
		}
	}
}

// program notes which objects are programmed, up to a revision, and returns those of which it is something new.
func (s *statuses) program(revision int64, missing []string) (keys []key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, w := range s.wanted {
		is := w.conditions[crd.Programmed]
		if w.ref.Kind == "" || !w.accepted() || w.revision == 0 || w.revision > revision || is.reason == reasonLastGood ||
			len(missing) > 0 && is.reason == reasonProgrammed {
			continue
		}
		if s.says(k, w, missing) || is.reason == reasonPending {
			keys = append(keys, k)
		}
	}
	return keys
}

// says has an object say whether the data plane has it, and reports whether that is new. The caller holds the lock.
func (s *statuses) says(k key, w *wanted, missing []string) bool {
	now := programmed(missing, s.options.ObjectError(w.ref.Kind, w.ref.Name))
	if now == w.conditions[crd.Programmed] {
		return false
	}
	next := *w // which others read without the lock
	next.conditions = maps.Clone(w.conditions)
	next.conditions[crd.Programmed] = now
	s.wanted[k] = &next
	return true
}

// recheck looks whether what is in force still is, until ctx ends.
func (s *statuses) recheck(ctx context.Context) {
	for timing.Sleep(ctx, recheck) == nil {
		s.queue.add(s.reprogram()...)
	}
}

// reprogram returns the objects that have lost or gained their effect.
func (s *statuses) reprogram() (keys []key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, w := range s.wanted {
		is := w.conditions[crd.Programmed]
		if is.reason != reasonProgrammed && is.reason != reasonRefused {
			continue
		}
		if s.says(k, w, nil) {
			keys = append(keys, k)
		}
	}
	return keys
}

// forget ends what is known of an object that is gone.
func (s *statuses) forget(k key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.wanted, k)
}

// lost returns the objects that were stored and are declared by something else now. What is stored is read after it is
// known what was.
func (s *statuses) lost(ctx context.Context) (keys []key) {
	s.mu.Lock()
	wanted := maps.Clone(s.wanted)
	s.mu.Unlock()
	owners, _, err := s.options.Store.OwnersOf(ctx)
	if err != nil {
		return nil // the next look finds them
	}
	for k, w := range wanted {
		if w.ref.Kind != "" && w.accepted() && owners[w.ref].By != w.owner.By {
			keys = append(keys, k)
		}
	}
	return keys
}

// unfinished returns the objects that are not as they say.
func (s *statuses) unfinished() (keys []key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, w := range s.wanted {
		if !w.accepted() || w.conditions[crd.ResolvedRefs].status == metav1.ConditionFalse {
			keys = append(keys, k)
		}
	}
	return keys
}

// write writes the status of an object, if it is not what the object says already.
func (s *statuses) write(ctx context.Context, k key) {
	s.mu.Lock()
	w := s.wanted[k]
	s.mu.Unlock()
	o := s.watches.get(k)
	if w == nil || o == nil || o.GetGeneration() != w.generation {
		return
	}
	status, news, same := statusOf(w, o)
	if same {
		return
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		s.options.Log.Error("a status cannot be written", zap.Error(err))
		return
	}
	client := s.options.Client.Resource(resourceOf(k.kind)).Namespace(k.namespace)
	_, err = client.Patch(ctx, k.name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	switch {
	case err == nil && news != "":
		s.event(ctx, o, news)
	case err == nil, apierrors.IsNotFound(err), ctx.Err() != nil:
	default:
		s.trouble(err)
		if timing.Sleep(ctx, time.Second) == nil {
			s.queue.add(k)
		}
	}
}

// trouble logs an error once for each text.
func (s *statuses) trouble(err error) {
	s.mu.Lock()
	told := s.told[err.Error()] || len(s.told) > workers
	s.told[err.Error()] = true
	s.mu.Unlock()
	if !told {
		s.options.Log.Warn("what became of an object cannot be said in Kubernetes", zap.Error(err))
	}
}

// statusOf returns the status of an object, the bad news in it, and whether the object says that already.
func statusOf(w *wanted, o *unstructured.Unstructured) (status map[string]any, news string, same bool) {
	is, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	before := map[string]map[string]any{}
	for _, c := range is {
		if m, ok := c.(map[string]any); ok {
			kind, _ := m["type"].(string)
			before[kind] = m
		}
	}
	now := time.Now().UTC().Format(time.RFC3339)
	same = len(before) == len(w.conditions)
	var list []any
	for _, kind := range slices.Sorted(maps.Keys(w.conditions)) {
		c, was := w.conditions[kind], before[kind]
		since := now
		if was["status"] == string(c.status) {
			since, _ = was["lastTransitionTime"].(string)
		}
		message := c.message[:min(len(c.message), maxMessage)]
		if was["message"] != message || was["reason"] != c.reason || was["status"] != string(c.status) {
			same = false
			if kind != crd.Programmed && c.status == metav1.ConditionFalse {
				news = message
			}
		}
		same = same && was["observedGeneration"] == w.generation
		list = append(list, map[string]any{"type": kind, "status": string(c.status), "reason": c.reason,
			"message": message, "observedGeneration": w.generation, "lastTransitionTime": since})
	}
	status = map[string]any{"observedGeneration": w.generation, "conditions": list}
	if w.ref.Name != "" {
		status["name"] = w.ref.Name
	}
	if w.secret != "" {
		status["secret"] = w.secret
	}
	return status, news, same
}

// event tells in an event why an object is not taken.
func (s *statuses) event(ctx context.Context, o *unstructured.Unstructured, message string) {
	now := time.Now().UTC().Format(time.RFC3339)
	e := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Event", "type": "Warning", "reason": "NotAccepted",
		"metadata": map[string]any{"generateName": "modelgate-", "namespace": o.GetNamespace()},
		"involvedObject": map[string]any{"apiVersion": o.GetAPIVersion(), "kind": o.GetKind(), "name": o.GetName(),
			"namespace": o.GetNamespace(), "uid": string(o.GetUID()), "resourceVersion": o.GetResourceVersion()},
		"message": message[:min(len(message), maxEvent)], "source": map[string]any{"component": "modelgate"},
		"firstTimestamp": now, "lastTimestamp": now, "count": int64(1),
	}}
	client := s.options.Client.Resource(resourceOf("events")).Namespace(o.GetNamespace())
	if _, err := client.Create(ctx, e, metav1.CreateOptions{}); err != nil && ctx.Err() == nil {
		s.trouble(err)
	}
}
