package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
)

// maxRead bounds how much of an answer is read.
const maxRead = 256 << 20

// A Client calls the admin API. It is safe for concurrent use. If the API answers with an error, the client
// returns an *[openai.Error]. Each subject, a tag of the description, has a type with its methods.
type Client struct {
	ObjectCalls
	ApprovalCalls
	UsageCalls
	RequestCalls
	JobCalls
	StateCalls
}

type (
	// ObjectCalls read and change the configuration.
	ObjectCalls struct{ caller *caller }
	// ApprovalCalls are about changes that wait for a second person.
	ApprovalCalls struct{ caller *caller }
	// UsageCalls ask what was used and spent.
	UsageCalls struct{ caller *caller }
	// RequestCalls read the request log, and what is kept of requests.
	RequestCalls struct{ caller *caller }
	// JobCalls are about the jobs of all tenants.
	JobCalls struct{ caller *caller }
	// StateCalls ask how the gateway is, and what people did to it.
	StateCalls struct{ caller *caller }
)

// A caller makes requests.
type caller struct {
	base  string
	token string
	http  *http.Client

	tenant  string // see Acting
	wait    string // seconds, or empty
	takes   bool   // see TakingOver
	pending func(who string)
}

func (c *caller) client() *Client {
	return &Client{ObjectCalls{c}, ApprovalCalls{c}, UsageCalls{c}, RequestCalls{c}, JobCalls{c}, StateCalls{c}}
}

// NewClient returns a client of the API at base, the URL without /admin/v1. It follows no redirect, whatever client
// would: see [Redirected].
func NewClient(base, token string, client *http.Client) *Client {
	own := *client
	own.CheckRedirect = Redirected
	return (&caller{base: strings.TrimRight(base, "/"), token: token, http: &own}).client()
}

// Acting returns a client that acts for one of an account's tenants: see [HeaderTenant].
func (c *Client) Acting(tenant string) *Client {
	acting := *c.ObjectCalls.caller
	acting.tenant = tenant
	return acting.client()
}

// Redirected is the CheckRedirect of an [http.Client] that calls the admin API. A change that is redirected would be
// sent as a GET, which changes nothing and succeeds, and the token would go to another port of the host, or go in
// clear.
func Redirected(r *http.Request, via []*http.Request) error {
	from := via[len(via)-1].URL
	return fmt.Errorf(
		"%s://%s answers with a redirect to %s://%s, which is not followed: give the address of the admin API itself",
		from.Scheme, from.Host, r.URL.Scheme, r.URL.Host)
}

// Waiting returns a client whose changes return when the data plane has taken them, or after d, in whole seconds.
// With 0 they do not wait. If the time is over, pending is called with the names of the clients that have not taken
// the change.
func (c *Client) Waiting(d time.Duration, pending func(who string)) *Client {
	waiting := *c.ObjectCalls.caller
	waiting.wait, waiting.pending = strconv.Itoa(int(d/time.Second)), pending
	return waiting.client()
}

// TakingOver returns a client whose changes may be of objects that something else declares, such as Kubernetes.
func (c *Client) TakingOver() *Client {
	taking := *c.ObjectCalls.caller
	taking.takes = true
	return taking.client()
}

// A Flag is a query parameter that is true.
type Flag string

// The flags of calls that take any.
const (
	DryRun        Flag = "dry_run"        // nothing is stored or erased
	Closed        Flag = "closed"         // also incidents that have closed
	CreateMissing Flag = "create_missing" // the organization and the project of a key are made if there are none
)

// If returns the flag if something is true.
func (f Flag) If(is bool) []Flag {
	if is {
		return []Flag{f}
	}
	return nil
}

func valuesOf(flags []Flag) url.Values {
	query := url.Values{}
	for _, f := range flags {
		query.Set(string(f), "true")
	}
	return query
}

// pathOf returns a path with names in the places of a format.
func pathOf(format string, names ...string) string {
	escaped := make([]any, len(names))
	for i, name := range names {
		escaped[i] = url.PathEscape(name)
	}
	return fmt.Sprintf(format, escaped...)
}

type request struct {
	method, path string
	query        url.Values
	body         any
	revision     int64 // the revision that the object must have, unless 0
	waits        bool  // it is a change that can be waited for
}

// ask does one request and returns its answer.
func ask[T any](ctx context.Context, c *caller, r request) (answer T, err error) {
	err = c.call(ctx, r, &answer)
	return answer, err
}

// send does one request and returns the status, the header and the body of its answer.
func (c *caller) send(ctx context.Context, r request) (int, http.Header, []byte, error) {
	var body []byte
	if r.body != nil {
		var err error
		if body, err = json.Marshal(r.body); err != nil {
			return 0, nil, nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, r.method, c.base+r.path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil, fmt.Errorf("call the admin API: %w", err)
	}
	if r.query == nil {
		r.query = url.Values{}
	}
	if r.waits && c.wait != "" {
		r.query.Set("wait", c.wait)
	}
	if r.waits && c.takes {
		r.query.Set("take_over", "true")
	}
	req.URL.RawQuery = r.query.Encode()
	req.Header.Set("Authorization", "Bearer "+c.token)
	if c.tenant != "" {
		req.Header.Set(HeaderTenant, c.tenant)
	}
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.revision != 0 {
		req.Header.Set("If-Match", strconv.Quote(strconv.FormatInt(r.revision, 10)))
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil, nil, fmt.Errorf("call the admin API: %w", err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxRead))
	if err != nil {
		return 0, nil, nil, fmt.Errorf("read the admin API's answer: %w", err)
	}
	return resp.StatusCode, resp.Header, answer, nil
}

// call does one request and decodes the answer into answer, unless that is nil.
func (c *caller) call(ctx context.Context, r request, answer any) error {
	status, header, body, err := c.send(ctx, r)
	if err != nil {
		return err
	}
	if status >= http.StatusBadRequest {
		return ErrorOf(status, body)
	}
	if who := header.Get(HeaderPending); who != "" && c.pending != nil {
		c.pending(who)
	}
	waiting := waitingOf(status, body)
	if answer == nil {
		return waiting
	}
	if err := json.Unmarshal(body, answer); err != nil && waiting == nil { // such an answer shows no object
		return fmt.Errorf("read the admin API's answer: %w", err)
	}
	return waiting
}

// waitingOf returns a [WaitingError] if the answer is about one change that waits for approval.
func waitingOf(status int, body []byte) error {
	var w Waiting
	if status == http.StatusAccepted && json.Unmarshal(body, &w) == nil && w.Pending {
		return &WaitingError{w.Approval}
	}
	return nil
}

// ErrorOf returns the error of an answer.
func ErrorOf(status int, body []byte) error {
	var answer struct {
		Error struct {
			Message string `json:"message"`
			Type    string `json:"type"`
			Param   string `json:"param"`
			Code    string `json:"code"`
		} `json:"error"`
	}
	e := &answer.Error
	if err := json.Unmarshal(body, &answer); err != nil || e.Message == "" {
		e.Message = "The answer is not of the admin API; is this its address?"
	}
	return &openai.Error{Status: status, Message: e.Message, Type: e.Type, Param: e.Param, Code: openai.Code(e.Code)}
}

// CreateTrialKey creates a key that its caller uses at once, and not for long. If such a key waits for approval, it
// creates one with the budget of a trial instead, which an ApprovalRule lets through. It withdraws what waits: nobody
// would know the key when it is approved.
func (c *Client) CreateTrialKey(ctx context.Context, of KeyRequest) (NewKey, error) {
	trial := []Budget{{Unit: configv1.Unit_MONTH.String(), USD: configv1.TrialUSD}}
	var reason string
	for _, budgets := range [][]Budget{of.Budgets, trial} {
		of.Budgets = budgets
		made, err := c.CreateKey(ctx, of)
		waits, ok := errors.AsType[*WaitingError](err)
		if !ok {
			return made, err
		}
		if err := c.Withdraw(ctx, waits.Approval.ID); err != nil {
			return NewKey{}, err
		}
		reason = waits.Approval.Reason
	}
	return NewKey{}, openai.CodeApprovalNeeded.New("Even a key for a trial waits for approval here. %s", reason)
}
