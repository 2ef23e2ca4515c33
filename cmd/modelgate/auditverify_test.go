package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
)

func TestAuditVerify(t *testing.T) {
	f, c := startFakeAdmin(t), &cli{}
	at := time.Unix(0, 0)
	whole := adminapi.AuditVerification{Intact: true, Entries: 12, Chained: 10, Vouched: 2, First: 3, FirstAt: &at,
		Last: 12, HeadSequence: 12, Head: "abc"}
	f.verified = whole
	out, errOut := c.run(t, exitOK, "audit", "verify")
	require.Regexp(t, `(?m)^in the chain +10$`, out)
	require.Regexp(t, `(?m)^first sequence +3$`, out)
	require.Regexp(t, `(?m)^head +abc$`, out)
	require.Empty(t, errOut)
	require.Equal(t, []string{"GET /admin/v1/audit/verify"}, f.asked)

	f.verified.Noted = &adminapi.NotedHead{Hash: "def", Found: true, Sequence: 7}
	out, _ = c.run(t, exitOK, "audit", "verify", "--head", "def")
	require.Regexp(t, `sequence of the noted head +7`, out)
	require.Equal(t, "GET /admin/v1/audit/verify?head=def", f.asked[1])

	for said, change := range map[string]func(*adminapi.AuditVerification){
		"The entry 5 is missing.": func(v *adminapi.AuditVerification) {
			v.Break = &adminapi.AuditBreak{Kind: "missing", Sequence: 5, Message: "The entry 5 is missing."}
		},
		"2 entries are outside the chain, such as 01X": func(v *adminapi.AuditVerification) {
			v.Outside, v.FirstOutside = 2, "01X"
		},
		"the noted head is not in the chain": func(v *adminapi.AuditVerification) {
			v.Noted = &adminapi.NotedHead{Hash: "def"}
		},
	} {
		f.verified, f.verified.Intact = whole, false
		change(&f.verified)
		_, errOut = c.run(t, exitFailed, "audit", "verify", "--head", "def")
		require.Equal(t, "modelgate: the audit log is not intact: "+said+"\n", errOut)
		out, _ = c.run(t, exitFailed, "audit", "verify", "-o", "json")
		require.Contains(t, out, `"intact":false`)
	}
}
