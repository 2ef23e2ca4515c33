package serve

import (
	"net/http"
	"strings"

	"go.uber.org/zap"

	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/proc"
	"github.com/modelgate/modelgate/internal/inflight"
	"github.com/modelgate/modelgate/internal/memlimit"
	"github.com/modelgate/modelgate/internal/telemetry"
	jobsmemory "github.com/modelgate/modelgate/jobsvc/memory"
)

// Parts of the memory that a process and its children may take. What is left is what Go's runtime does not count, and
// the kernel's.
const (
	aloneShare    = 0.90 // of Go, where it is alone
	goBesideEnvoy = 0.60 // of Go, where Envoy is a child in the same control group
	envoyBesideGo = 0.30 // of Envoy's heap then
	envoyAlone    = 0.75 // of Envoy's heap where its supervisor alone is beside it
)

// startMemory has the process live within a share of the memory that it may take, and returns what says that there is
// none left.
func startMemory(p *proc.Parts, share float64, measured *telemetry.Telemetry, log *zap.Logger) *memlimit.Watch {
	w := memlimit.New(memlimit.Set(share))
	measured.Registry.MustRegister(w.Collectors()...)
	p.Serve("watch of the memory", w.Run)
	log.Info("memory is limited", zap.Int64("bytes", w.Limit()))
	return w
}

// envoyHeap returns the heap at which Envoy sheds load, where the operator does not say; 0 is none.
func envoyHeap(share float64) uint64 { return uint64(float64(memlimit.Find()) * share) }

// bodyFlags say how much of bodies is held at the same time.
type bodyFlags struct {
	BodyBytes int64 `default:"0" placeholder:"N" help:"Maximum bytes of request and response bodies in memory, both original and translated. One key can use half of it. Default: an eighth of the memory, at least 96 MiB and at most 512 MiB."`
}

// Bounds of what is held of bodies where the operator does not say: room for the largest answer, and what fits beside
// all else.
const (
	leastBodies = 96 << 20
	mostBodies  = 512 << 20
	bodyShare   = 8
)

// bound returns the bound of the bytes of bodies.
func (f bodyFlags) bound(memory *memlimit.Watch) *inflight.Bytes {
	total := f.BodyBytes
	if total == 0 {
		total = mostBodies
		if limit := memory.Limit(); limit > 0 {
			total = min(max(limit/bodyShare, leastBodies), mostBodies)
		}
	}
	return inflight.New(total, total/2)
}

// Bounds of what the job service holds where the operator does not say. The rest of its memory is for what is not
// counted: its configuration, connections, and what the collector has not found yet.
const (
	leastHeld = 64 << 20
	mostHeld  = 1 << 30
)

// heldBytes returns the bound of what the job service holds in memory.
func (f jobFlags) heldBytes(memory *memlimit.Watch) int64 {
	if f.JobsMemory > 0 {
		return f.JobsMemory
	}
	if limit := memory.Limit(); limit > 0 {
		return min(max(3*limit/8, leastHeld), mostHeld)
	}
	return jobsmemory.Total
}

// noteOfMemory is that the process refuses work for want of memory, or did so a short time ago.
func noteOfMemory(w *memlimit.Watch) proc.Note { return prefixed(admincli.SaysShort, w.Warning) }

// noteOfBodies is that there was no room for a body a short time ago.
func noteOfBodies(b *inflight.Bytes) proc.Note {
	return prefixed(admincli.SaysBodies, func() (string, bool) { return b.Warning(), false })
}

func prefixed(prefix string, n proc.Note) proc.Note {
	return func() (string, bool) {
		what, severe := n()
		if what != "" {
			what = prefix + what
		}
		return what, severe
	}
}

// isNewWork reports whether a request to the job service makes or adds something, which takes memory.
func isNewWork(r *http.Request) bool {
	return r.Method == http.MethodPost && !strings.HasSuffix(r.URL.Path, "/cancel")
}

// isExport reports whether a request to the control plane is for a table, which is made in memory.
func isExport(r *http.Request) bool {
	return strings.HasSuffix(r.URL.Path, ".csv") || r.URL.Query().Get("format") == "csv" ||
		strings.Contains(r.Header.Get("Accept"), "text/csv")
}
