package cmdline

import "errors"

// ErrRefused ends a command that has printed the error which the client would get.
var ErrRefused = errors.New("the request cannot be served")
