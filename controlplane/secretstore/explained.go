package secretstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
)

// Explained returns why a store did not answer, the same each time: the library's errors have ports that differ.
func Explained(store string, err error) error {
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err
	}
	if timed, ok := errors.AsType[net.Error](err); ok && timed.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s did not answer within %d s", store, int(Timeout.Seconds()))
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	return fmt.Errorf("asking %s: %w", store, err)
}
