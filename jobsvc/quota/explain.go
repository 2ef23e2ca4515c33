package quota

import (
	"fmt"
	"net/http"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// codeQuota is the code of a quota that is used up.
const codeQuota = "insufficient_quota"

// room says how to have room again.
func room(q store.Quota) string {
	switch q {
	case store.OpenBatches:
		return "Wait until batches end, or cancel some."
	case store.KeptBatches, store.KeptFineTuningJobs:
		return "Those that have ended go when their time of retention is over."
	case store.Files, store.FileBytes:
		return "Delete files that are not needed, cancel uploads, or give files an expiry. Uploads that are under way count too."
	case store.OpenUploads:
		return "Complete or cancel some: each ends by itself an hour after its creation."
	case store.KeptUploads:
		return "An upload is forgotten a day after its end."
	case store.OpenFineTuningJobs:
		return "Wait until jobs end, or cancel some."
	case store.IdempotencyRecords:
		return "Each is forgotten after a day. Requests without an Idempotency-Key need none."
	}
	return "Delete files that are not needed, send less metadata, and fewer requests with an Idempotency-Key, which are remembered for a day."
}

// explained is what the client is told of a quota that is used up.
func explained(e *store.QuotaError) error {
	return &openai.Error{Status: http.StatusTooManyRequests, Type: codeQuota, Code: codeQuota, NoRetry: true,
		Message: fmt.Sprintf("The quota '%s' of %s is used up: %d of %d are in use, and this request needs more than is left. %s Or ask your operator to raise quotas.%s.",
			e.Quota, e.Account, e.Used, e.Limit, room(e.Quota), e.Quota)}
}
