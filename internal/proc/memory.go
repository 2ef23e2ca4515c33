package proc

import (
	"go.uber.org/zap"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/internal/inflight"
	"github.com/modelgate/modelgate/internal/memlimit"
	"github.com/modelgate/modelgate/internal/parts"
	"github.com/modelgate/modelgate/internal/telemetry"
)

// Parts of the memory that a process and its children may take. What is left is what Go's runtime does not count, and
// the kernel's.
const (
	AloneShare    = 0.90 // of Go, if it is alone
	GoBesideEnvoy = 0.60 // of Go, if Envoy is a child in the same control group
	EnvoyBesideGo = 0.30 // of Envoy's heap then
	EnvoyAlone    = 0.75 // of Envoy's heap where its supervisor alone is beside it
)

// StartMemory has the process live within a share of the memory that it may take, and returns what says that there is
// none left.
func StartMemory(p *parts.Parts, share float64, measured *telemetry.Telemetry, log *zap.Logger) *memlimit.Watch {
	w := memlimit.New(memlimit.Set(share))
	measured.Registry.MustRegister(w.Collectors()...)
	p.Serve("watch of the memory", w.Run)
	log.Info("memory is limited", zap.Int64("bytes", w.Limit()))
	return w
}

// EnvoyHeap returns the heap at which Envoy sheds load, if the operator does not say; 0 is none.
func EnvoyHeap(share float64) uint64 { return uint64(float64(memlimit.Find()) * share) }

// NoteOfMemory is that the process refuses work for want of memory, or did so a short time ago.
func NoteOfMemory(w *memlimit.Watch) Note { return prefixed(adminapi.SaysShort, w.Warning) }

// NoteOfBodies is that there was no room for a body a short time ago.
func NoteOfBodies(b *inflight.Bytes) Note {
	return prefixed(adminapi.SaysBodies, func() (string, bool) { return b.Warning(), false })
}

func prefixed(prefix string, n Note) Note {
	return func() (string, bool) {
		what, severe := n()
		if what != "" {
			what = prefix + what
		}
		return what, severe
	}
}

// NoteUnless is why something cannot be used, after the prefix.
func NoteUnless(prefix string, ready func() error) Note {
	return func() (string, bool) {
		if err := ready(); err != nil {
			return prefix + err.Error(), true
		}
		return "", false
	}
}
