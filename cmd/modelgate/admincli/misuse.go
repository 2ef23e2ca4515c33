package admincli

import (
	"fmt"
)

// A Misuse is that a command line is wrong, which is found only when the command runs.
type Misuse struct{ error }

// Unwrap returns what is wrong.
func (m Misuse) Unwrap() error { return m.error }

// Misused returns the error for a command line that is wrong: it has the exit code of a line that cannot be parsed.
func Misused(format string, args ...any) error { return Misuse{fmt.Errorf(format, args...)} }
