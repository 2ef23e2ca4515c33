package sdk

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/tidwall/gjson"
)

// webhookSecret signs the events of the gateway under test, and of nothing else.
const webhookSecret = "whsec_c2VjcmV0LW9mLXRoZS1nYXRld2F5LXVuZGVyLXRlc3Q="

// A receiver takes the gateway's webhooks, and tells the programs of them: GET /delivered/ID waits for the event of an
// object, and answers with its body and headers.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex // guards events and came
	events map[string]delivery
	came   *sync.Cond
}

type delivery struct {
	Body    string            `json:"body"`
	Headers map[string]string `json:"headers"`
}

func newReceiver(t *testing.T) *receiver {
	v := &receiver{events: map[string]delivery{}}
	v.came = sync.NewCond(&v.mu)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /hook", v.receive)
	mux.HandleFunc("GET /delivered/{id}", v.tell)
	v.Server = httptest.NewServer(mux)
	t.Cleanup(v.Close)
	return v
}

// document configures the receiver for keys without an organization.
func (v *receiver) document() string {
	return "---\nkind: Webhook\nname: test\nurl: " + v.URL + "/hook\nsecret:\n  value: " + webhookSecret + "\n"
}

func (v *receiver) receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	d := delivery{string(body), map[string]string{}}
	for name := range r.Header {
		d.Headers[name] = r.Header.Get(name)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.events[gjson.GetBytes(body, "data.id").Str] = d
	v.came.Broadcast()
}

func (v *receiver) tell(w http.ResponseWriter, r *http.Request) {
	stop := r.Context().Done()
	go func() {
		<-stop
		v.mu.Lock()
		defer v.mu.Unlock()
		v.came.Broadcast()
	}()
	v.mu.Lock()
	defer v.mu.Unlock()
	for r.Context().Err() == nil {
		if d, ok := v.events[r.PathValue("id")]; ok {
			answer(w, http.StatusOK, d)
			return
		}
		v.came.Wait()
	}
}
