package serve

import (
	"go.uber.org/zap"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/internal/inflight"
	"github.com/modelgate/modelgate/internal/memlimit"
	"github.com/modelgate/modelgate/internal/parts"
	"github.com/modelgate/modelgate/internal/proc"
	"github.com/modelgate/modelgate/internal/telemetry"
)

// Parts of the memory that a process and its children may take. What is left is what Go's runtime does not count, and
// the kernel's.
const (
	aloneShare    = 0.90 // of Go, if it is alone
	goBesideEnvoy = 0.60 // of Go, if Envoy is a child in the same control group
	envoyBesideGo = 0.30 // of Envoy's heap then
	envoyAlone    = 0.75 // of Envoy's heap where its supervisor alone is beside it
)

// startMemory has the process live within a share of the memory that it may take, and returns what says that there is
// none left.
func startMemory(p *parts.Parts, share float64, measured *telemetry.Telemetry, log *zap.Logger) *memlimit.Watch {
	w := memlimit.New(memlimit.Set(share))
	measured.Registry.MustRegister(w.Collectors()...)
	p.Serve("watch of the memory", w.Run)
	log.Info("memory is limited", zap.Int64("bytes", w.Limit()))
	return w
}

// envoyHeap returns the heap at which Envoy sheds load, if the operator does not say; 0 is none.
func envoyHeap(share float64) uint64 { return uint64(float64(memlimit.Find()) * share) }

// heldFlags say how much clients hold of a process at the same time.
type heldFlags struct {
	BodyBytes int64 `default:"0" placeholder:"N" help:"Maximum bytes of request and response bodies in memory, both original and translated. One key can use half of it. Default: an eighth of the memory, at least 96 MiB and at most 512 MiB."`
	Sessions  int   `default:"3000" placeholder:"N" help:"Maximum number of open sessions of the Realtime API. One key can have a third of them. 0: no maximum."`
}

// noteOfMemory is that the process refuses work for want of memory, or did so a short time ago.
func noteOfMemory(w *memlimit.Watch) proc.Note { return prefixed(adminapi.SaysShort, w.Warning) }

// noteOfBodies is that there was no room for a body a short time ago.
func noteOfBodies(b *inflight.Bytes) proc.Note {
	return prefixed(adminapi.SaysBodies, func() (string, bool) { return b.Warning(), false })
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
