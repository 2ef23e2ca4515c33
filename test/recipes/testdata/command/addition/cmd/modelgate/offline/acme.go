package offline

import (
	"fmt"
	"io"
)

// AcmeCmd is the command of the recipe's test.
type AcmeCmd struct {
	Cargo string `arg:"" help:"What is delivered."`
}

// Run prints what is delivered.
func (c AcmeCmd) Run(stdout io.Writer) error {
	_, err := fmt.Fprintln(stdout, "One", c.Cargo, "is on its way.")
	return err
}
