package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/cmd/modelgate/console"
)

// verifyTimeout is longer than the admin API reads an audit log.
const verifyTimeout = 11 * time.Minute

var errNotIntact = errors.New("the audit log is not intact")

type auditVerifyCmd struct {
	adminflags.AdminFlags
	adminflags.OutputFlags
	Head string `placeholder:"HASH" help:"Hash of a head that this command printed earlier. Fails if it is no longer in the chain."`
}

// Help is shown below the flags' summary.
func (auditVerifyCmd) Help() string {
	return "Note the head in a place that the gateway cannot write. Only the noted head shows that the whole chain was written again.\n\n" +
		"Example:\n  modelgate audit verify --head \"$(cat head)\" -o json > found && jq -r .head found > head"
}

// Run prints what the whole log is like, and fails if it is not what was written.
func (c auditVerifyCmd) Run(ctx context.Context, stdout io.Writer) error {
	conn, err := c.Connect()
	if err != nil {
		return err
	}
	conn.HTTP.Timeout = verifyTimeout
	found, err := adminapi.NewClient(conn.Server, conn.Token, conn.HTTP).VerifyAudit(ctx,
		adminapi.ListOptions{Filters: map[string]string{"head": c.Head}})
	if err != nil {
		return admincli.Said(err)
	}
	if err := c.Show(stdout, found, func(out *console.Text) { verificationTable(out, found) }); err != nil {
		return err
	}
	return notIntact(found)
}

// notIntact returns what is wrong.
func notIntact(found adminapi.AuditVerification) error {
	switch {
	case found.Break != nil:
		return fmt.Errorf("%w: %s", errNotIntact, adminapi.OneLine(found.Break.Message))
	case found.Outside > 0:
		return fmt.Errorf("%w: %d entries are outside the chain, such as %s", errNotIntact, found.Outside,
			adminapi.OneLine(found.FirstOutside))
	case found.Noted != nil && !found.Noted.Found:
		return fmt.Errorf("%w: the noted head is not in the chain", errNotIntact)
	case !found.Intact:
		return errNotIntact
	}
	return nil
}

func verificationTable(out *console.Text, found adminapi.AuditVerification) {
	since := ""
	if found.FirstAt != nil {
		since = out.Time(*found.FirstAt)
	}
	rows := [][]string{
		{"entries", fmt.Sprint(found.Entries)},
		{"in the chain", fmt.Sprint(found.Chained)},
		{"vouched for", fmt.Sprint(found.Vouched)},
		{"outside the chain", fmt.Sprint(found.Outside)},
		{"first sequence", fmt.Sprint(found.First)},
		{"time of the first", since},
		{"last sequence", fmt.Sprint(found.Last)},
		{"head", found.Head},
	}
	if n := found.Noted; n != nil && n.Found {
		rows = append(rows, []string{"sequence of the noted head", fmt.Sprint(n.Sequence)})
	}
	if b := found.Break; b != nil {
		rows = append(rows, []string{"first break", fmt.Sprintf("%s, sequence %d", b.Kind, b.Sequence)})
	}
	out.Table("", []string{"AUDIT LOG", ""}, rows)
}
