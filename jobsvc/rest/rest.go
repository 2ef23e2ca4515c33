// Package rest has the common parts of the job service's handlers: the caller, pages of lists, idempotent creation,
// and errors about failed storage.
//
// The caller is in headers that only Envoy sets, after the ext_proc service has checked the key. That is safe because
// only Envoy reaches the job service: its socket is private, and its port requires mutual TLS.
package rest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/internal/blobstore"
	"github.com/modelgate/modelgate/internal/etcdspace"
	"github.com/modelgate/modelgate/internal/httpapi"
	"github.com/modelgate/modelgate/internal/telemetry"
	"github.com/modelgate/modelgate/jobsvc/memory"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// A Caller is the client of a request.
type Caller struct {
	Key    string // name of the Key object
	Tenant store.Tenant
	// Bounds are the quotas for a transaction that creates an object of the caller: see quota.Gate.
	Bounds store.Bounds
}

// Owner returns the owner of the objects that the caller creates.
func (c Caller) Owner() store.Owner { return store.Owner{Tenant: c.Tenant, Key: c.Key} }

// WithContentLength restores the length of a request's body that the client has announced. Envoy sends the body in
// chunks.
func WithContentLength(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n, err := strconv.ParseInt(r.Header.Get(envoy.HeaderLength), 10, 64); err == nil && n >= 0 &&
			r.ContentLength < 0 {
			r.ContentLength = n
		}
		next.ServeHTTP(w, r)
	})
}

// A HandlerFunc answers a caller, or returns an error before it has written anything.
type HandlerFunc func(w http.ResponseWriter, r *http.Request, c Caller) error

// Handler returns a handler that runs f for the request's caller, and renders its error. What f takes of the budget,
// by the context of the request, is given back at the end; nil has no bounds.
func Handler(log *zap.Logger, budget *memory.Budget, f HandlerFunc) http.Handler {
	return httpapi.Handler(log, func(w http.ResponseWriter, r *http.Request) error {
		if id := r.Header.Get("X-Request-Id"); id != "" {
			w.Header().Set("X-Request-Id", id)
		}
		c, err := callerOf(r)
		if err == nil {
			err = plain(r)
		}
		if err == nil {
			err = budget.Handle(r, c.Owner().Accounts()[0].String(), func(r *http.Request) error { return f(w, r, c) })
		}
		return clientError(err)
	})
}

// plain refuses a compressed body, because its decompressed size is not known.
func plain(r *http.Request) error {
	encoding := r.Header.Get("Content-Encoding")
	if encoding == "" || strings.EqualFold(encoding, "identity") {
		return nil
	}
	return openai.UnsupportedContentEncoding(telemetry.Clip(encoding), "as it is")
}

func callerOf(r *http.Request) (Caller, error) {
	organization, err1 := url.QueryUnescape(r.Header.Get(envoy.HeaderOrganization))
	project, err2 := url.QueryUnescape(r.Header.Get(envoy.HeaderProject))
	key := r.Header.Get(envoy.HeaderKey)
	if key == "" || err1 != nil || err2 != nil {
		return Caller{}, openai.CodeInvalidAPIKey.New("The request did not come through the gateway. Send it to the gateway's address.")
	}
	return Caller{Key: key, Tenant: store.Tenant{Organization: organization, Project: project}}, nil
}

// clientError converts failures of storage to errors for the client. The cause is only logged.
func clientError(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*openai.Error](err); ok {
		return err
	}
	switch {
	case blobstore.IsFull(err), errors.Is(err, rpctypes.ErrNoSpace):
		return httpapi.WithCause(openai.CodeStorageFull.New("The gateway has no room left to store this. Nothing was kept of it.").Final(), err)
	case errors.Is(err, store.ErrArchiveDamaged):
		e := openai.CodeArchiveDamaged.New("A part of the gateway's archive is missing or damaged. Objects that are not in it can be read.").Final()
		if of, ok := errors.AsType[*store.ArchiveError](err); ok {
			e.Message = fmt.Sprintf(
				"A part of the gateway's archive, '%s', is missing or damaged. Objects that are not in it can be read.",
				of.Segment)
		}
		return httpapi.WithCause(e, err)
	case errors.Is(err, etcdspace.ErrReserved):
		return openai.CodeStoreFull.New("The gateway's store for jobs and files is nearly full, and takes nothing new. Nothing was kept of this. Delete what you do not need, or try again later.").After(30 * time.Second)
	case errors.Is(err, store.ErrConflict):
		return httpapi.WithCause(openai.CodeConflict.New("The object was changed by another request at the same time. Please retry."), err)
	case errors.Is(err, store.ErrBusy), unavailable(err):
		return httpapi.WithCause(openai.CodeGatewayUnavailable.New("The gateway's storage is temporarily unavailable. Please retry.").After(time.Second), err)
	}
	return err
}

// unavailable reports whether an error means that etcd or the blob store did not answer.
func unavailable(err error) bool {
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return true
	}
	if errors.Is(err, store.ErrArchiveAway) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, rpctypes.ErrNoLeader) || errors.Is(err, rpctypes.ErrTooManyRequests) {
		return true
	}
	var e rpctypes.EtcdError
	if errors.As(err, &e) {
		return e.Code() == codes.Unavailable || e.Code() == codes.DeadlineExceeded
	}
	code := status.Code(errors.Unwrap(err))
	return code == codes.Unavailable || code == codes.DeadlineExceeded
}

// PageOf reads the parameters of a list: after, limit (1 to most, by default normal) and, if ordered, order (asc or
// desc).
func PageOf(r *http.Request, normal, most int, ordered bool) (store.Page, error) {
	q := r.URL.Query()
	p := store.Page{After: q.Get("after"), Limit: normal}
	if s := q.Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		switch {
		case err != nil:
			return p, openai.CodeInvalidType.On("limit",
				"Invalid type for 'limit': expected an integer, but got '%s' instead.", s)
		case n < 1:
			return p, openai.CodeIntegerBelowMinValue.On("limit",
				"Invalid 'limit': integer below minimum value. Expected a value >= 1, but got %d instead.", n)
		case n > most:
			return p, openai.CodeIntegerAboveMaxValue.On("limit",
				"Invalid 'limit': integer above maximum value. Expected a value <= %d, but got %d instead.", most, n)
		}
		p.Limit = n
	}
	switch order := q.Get("order"); {
	case !ordered || order == "" || order == "desc":
	case order == "asc":
		p.Ascending = true
	default:
		return p, openai.CodeInvalidValue.On("order",
			"Invalid value: '%s'. Supported values are: 'asc' and 'desc'.", order)
	}
	return p, nil
}

// Cursor converts the error of a list with an invalid cursor.
func Cursor(err error, after string) error {
	if errors.Is(err, store.ErrCursor) {
		return openai.CodeInvalidValue.On("after",
			"Invalid 'after': '%s' is not the id of an object of this list.", after)
	}
	return err
}

// A List is OpenAI's list object. FirstID and LastID are null if it is empty.
type List[T any] struct {
	Object  string  `json:"object"` // list
	Data    []T     `json:"data"`
	FirstID *string `json:"first_id"`
	LastID  *string `json:"last_id"`
	HasMore bool    `json:"has_more"`
}

// ListOf returns the list object of a page.
func ListOf[T, R any](page []*store.Record[R], more bool, show func(*store.Record[R]) T) List[T] {
	l := List[T]{Object: "list", Data: make([]T, 0, len(page)), HasMore: more}
	for _, r := range page {
		l.Data = append(l.Data, show(r))
	}
	if n := len(page); n > 0 {
		l.FirstID, l.LastID = &page[0].ID, &page[n-1].ID
	}
	return l
}
