// Package parts has what a process is made of: parts that start in order and end in reverse.
//
// A part that ends by itself ends the process. What may end without that must not return before its context does.
package parts

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"
)

// Parts is what runs in this process, in the order in which it was started. It is used by one goroutine.
type Parts struct {
	log     *zap.Logger
	started []part
	failed  chan error // the end of parts that nobody stopped
}

type part struct {
	name string
	stop func(ctx context.Context) error
}

// New returns a process without parts.
func New(log *zap.Logger) *Parts { return &Parts{log: log, failed: make(chan error, 1)} }

// Add says that a part was started, and how it is stopped: as kindly as it can be until ctx ends, then at once. Stop
// returns when the part has ended.
func (p *Parts) Add(name string, stop func(ctx context.Context) error) {
	p.log.Debug("part started", zap.String("part", name))
	p.started = append(p.started, part{name, stop})
}

// Serve starts a part that runs until its context ends.
func (p *Parts) Serve(name string, run func(ctx context.Context) error) {
	// Not the context of the command: parts end in reverse order, not all at once when it does.
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		err := run(ctx)
		if ctx.Err() == nil {
			p.fail(name, err)
		}
		done <- err
	}()
	p.Add(name, func(context.Context) error {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	})
}

// fail reports that a part ended by itself. The first one counts.
func (p *Parts) fail(name string, err error) {
	if err == nil {
		err = errors.New("it ended by itself")
	}
	select {
	case p.failed <- fmt.Errorf("%s: %w", name, err):
	default:
	}
}

// Wait returns nil when ctx ends, and before that the error of a part that ended by itself.
func (p *Parts) Wait(ctx context.Context) error {
	select {
	case err := <-p.failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

// Stop stops all parts, the last one first, and returns what went wrong.
func (p *Parts) Stop(ctx context.Context) error {
	var errs []error
	for i := len(p.started) - 1; i >= 0; i-- {
		errs = append(errs, p.started[i].stop(ctx))
		p.log.Debug("part stopped", zap.String("part", p.started[i].name))
	}
	p.started = nil
	return errors.Join(errs...)
}
