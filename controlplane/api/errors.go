package api

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// clientError returns the client's error for an internal one.
func clientError(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*openai.Error](err); ok {
		return err
	}
	if invalid, ok := errors.AsType[configv1.Errors](err); ok {
		return openai.CodeInvalidObject.On(invalid[0].Field, "%s", invalid.Error())
	}
	switch {
	case errors.Is(err, configstore.ErrNotFound):
		return openai.CodeNotFound.New("%s", err.Error())
	case errors.Is(err, configstore.ErrConflict):
		return openai.CodeConflict.New("Other clients changed the configuration at the same time. Try again.")
	case errors.Is(err, configstore.ErrTooLarge), errors.Is(err, rpctypes.ErrRequestTooLarge):
		return openai.CodeObjectTooLarge.New("%s", err.Error())
	case errors.Is(err, configstore.ErrUnfinished):
		return httpapi.WithCause(openai.CodeApplyUnfinished.New("The changes are accepted, but etcd has not stored all of them yet. The control planes store the rest as soon as etcd allows. The changes take effect together.").After(10*time.Second), err)
	case errors.Is(err, configstore.ErrRestoring):
		return openai.CodeStoreRestoring.New("A backup is being restored. Changes are refused until the restore is complete.").After(10 * time.Second)
	case errors.Is(err, rpctypes.ErrNoSpace):
		return httpapi.WithCause(openai.CodeStoreFull.New("etcd is full: it refuses new data, but you can delete objects. The control plane frees space where it can. Run modelgate doctor to see what else to do.").After(10*time.Second), err)
	}
	if !fromStore(err) {
		return err
	}
	if e, ok := errors.AsType[rpctypes.EtcdError](err); ok && refuses(e.Code()) {
		return httpapi.WithCause(openai.CodeStoreRefused.New("The configuration store refused the request: %s.",
			e.Error()), err)
	}
	return httpapi.WithCause(openai.CodeStoreUnavailable.New("The configuration store is unreachable. Traffic continues with the last configuration."), err)
}

// refuses reports whether a code of etcd's says that it was reached and would not.
func refuses(c codes.Code) bool {
	return slices.Contains([]codes.Code{codes.InvalidArgument, codes.FailedPrecondition, codes.PermissionDenied,
		codes.Unauthenticated, codes.ResourceExhausted, codes.OutOfRange}, c)
}

// fromStore reports whether etcd, or a database, did not answer.
func fromStore(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return true
	}
	var e rpctypes.EtcdError
	return errors.As(err, &e) || status.Code(err) != codes.Unknown
}

func badQuery(err error) error {
	return openai.CodeInvalidValue.New("The query of the URL is malformed: %v.", err)
}

func givenTwice(parameter string) error {
	return openai.CodeInvalidValue.On(parameter, "The parameter %s may be given only once.", parameter)
}
