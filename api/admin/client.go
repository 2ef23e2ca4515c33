package admin

import (
	"bytes"
	"context"
	"encoding/json"
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
// returns an *[openai.Error]. Each subject has a type with its methods.
type Client struct {
	ObjectCalls
	ApprovalCalls
	UsageCalls
	RequestCalls
	JobCalls
	StateCalls
}

// ObjectCalls read and change the configuration.
type ObjectCalls struct{ caller *caller }

// ApprovalCalls are about changes that wait for a second person.
type ApprovalCalls struct{ caller *caller }

// UsageCalls ask what was used and spent.
type UsageCalls struct{ caller *caller }

// RequestCalls read the request log, and what is kept of requests.
type RequestCalls struct{ caller *caller }

// JobCalls are about the jobs of all tenants.
type JobCalls struct{ caller *caller }

// StateCalls ask how the gateway is, and what people did to it.
type StateCalls struct{ caller *caller }

// A caller makes requests.
type caller struct {
	base  string
	token string
	http  *http.Client

	tenant  string // see Acting
	wait    string // query of changes, or empty
	pending func(who string)
}

func (c *caller) client() *Client {
	return &Client{ObjectCalls{c}, ApprovalCalls{c}, UsageCalls{c}, RequestCalls{c}, JobCalls{c}, StateCalls{c}}
}

// Acting returns a client that acts for one of an account's tenants: see [HeaderTenant].
func (c *Client) Acting(tenant string) *Client {
	acting := *c.ObjectCalls.caller
	acting.tenant = tenant
	return acting.client()
}

// NewClient returns a client of the API at base, the URL without /admin/v1. It follows no redirect, whatever client
// would: see [Redirected].
func NewClient(base, token string, client *http.Client) *Client {
	own := *client
	own.CheckRedirect = Redirected
	return (&caller{base: strings.TrimRight(base, "/"), token: token, http: &own}).client()
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
	waiting.wait, waiting.pending = "wait="+strconv.Itoa(int(d/time.Second)), pending
	return waiting.client()
}

// listPage is how many objects List asks for at once.
const listPage = 1000

// List returns the objects of a kind, sorted by name.
func (c ObjectCalls) List(ctx context.Context, kind configv1.Kind) ([]Item, error) {
	var items []Item
	for o := (ListOptions{Limit: listPage}); ; {
		page, err := c.ListPage(ctx, kind, o)
		if err != nil {
			return nil, err
		}
		items = append(items, page.Items...)
		if page.Next == "" {
			return items, nil
		}
		o.After = page.Next
	}
}

// Get returns one object. The error is a 404 if there is none.
func (c ObjectCalls) Get(ctx context.Context, kind configv1.Kind, name string) (Item, error) {
	var item Item
	err := c.caller.call(ctx, request{method: http.MethodGet, path: pathOf(kind, name)}, &item)
	return item, err
}

// Put stores one object, and returns it as it is then. Where revision is not 0, the object must still have it: the
// error is a 412 otherwise.
func (c ObjectCalls) Put(ctx context.Context, o configv1.Object, revision int64) (Item, error) {
	var item Item
	body, err := configv1.MarshalJSON(o)
	if err != nil {
		return item, err
	}
	err = c.caller.call(ctx, request{method: http.MethodPut, path: pathOf(configv1.KindOf(o), o.GetName()), body: body,
		revision: revision}, &item)
	return item, err
}

// Delete removes one object. A key that is deleted is revoked.
func (c ObjectCalls) Delete(ctx context.Context, kind configv1.Kind, name string) error {
	return c.caller.call(ctx, request{method: http.MethodDelete, path: pathOf(kind, name)}, nil)
}

// How an apply treats objects that are stored and not given.
const (
	PruneNone = ""     // they stay
	PruneSome = "true" // they are deleted, but not all of a kind
	PruneAll  = "all"  // they are deleted
)

// Apply stores all objects or none. With dryRun it stores none and says what it would have done.
func (c ObjectCalls) Apply(ctx context.Context, objects []configv1.Object, dryRun bool) (ApplyAnswer, error) {
	return c.ApplyPruning(ctx, objects, PruneNone, dryRun)
}

// ApplyPruning is Apply, and also deletes objects that are not given. What a file does not describe stays: keys,
// accounts, tokens, listings and fine-tuned models.
func (c ObjectCalls) ApplyPruning(ctx context.Context, objects []configv1.Object, prune string,
	dryRun bool) (ApplyAnswer, error) {
	var answer ApplyAnswer
	docs := make([]json.RawMessage, len(objects))
	for i, o := range objects {
		doc, err := configv1.MarshalJSON(o)
		if err != nil {
			return answer, err
		}
		docs[i] = doc
	}
	body, err := json.Marshal(docs)
	if err != nil {
		return answer, err
	}
	query := url.Values{}
	if dryRun {
		query.Set("dry_run", "true")
	}
	if prune != PruneNone {
		query.Set("prune", prune)
	}
	path := "apply"
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	err = c.caller.call(ctx, request{method: http.MethodPost, path: path, body: body}, &answer)
	return answer, err
}

// A Flag is a query parameter that is true.
type Flag string

// The flags of calls that take any.
const (
	DryRun        Flag = "dry_run"        // nothing is stored or erased
	CreateMissing Flag = "create_missing" // the organization and the project of a key are made if there are none
)

// If returns the flag if something is true.
func (f Flag) If(is bool) []Flag {
	if is {
		return []Flag{f}
	}
	return nil
}

func flagged(path string, flags []Flag) string {
	query := url.Values{}
	for _, f := range flags {
		query.Set(string(f), "true")
	}
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// CreateKey makes a key. It cannot be shown again.
func (c ObjectCalls) CreateKey(ctx context.Context, r KeyRequest, flags ...Flag) (NewKey, error) {
	return post[NewKey](ctx, c.caller, flagged("keys", flags), r)
}

func pathOf(kind configv1.Kind, name string) string {
	parts := strings.Split(name, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return kind.Plural + "/" + strings.Join(parts, "/")
}

type request struct {
	method, path string
	body         []byte
	revision     int64 // the revision that the object must have, unless 0
}

// call does one request and decodes the answer into answer, unless that is nil.
func (c *caller) call(ctx context.Context, r request, answer any) error {
	req, err := http.NewRequestWithContext(ctx, r.method, c.base+"/admin/v1/"+r.path, bytes.NewReader(r.body))
	if err != nil {
		return fmt.Errorf("call the admin API: %w", err)
	}
	if c.wait != "" && r.method != http.MethodGet {
		req.URL.RawQuery = strings.TrimPrefix(req.URL.RawQuery+"&"+c.wait, "&")
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	if c.tenant != "" {
		req.Header.Set(HeaderTenant, c.tenant)
	}
	if len(r.body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.revision != 0 {
		req.Header.Set("If-Match", strconv.Quote(strconv.FormatInt(r.revision, 10)))
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("call the admin API: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxRead))
	if err != nil {
		return fmt.Errorf("read the admin API's answer: %w", err)
	}
	if resp.StatusCode >= http.StatusBadRequest {
		return ErrorOf(resp.StatusCode, body)
	}
	if who := resp.Header.Get(HeaderPending); who != "" && c.pending != nil {
		c.pending(who)
	}
	waiting := waitingOf(resp.StatusCode, body)
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
