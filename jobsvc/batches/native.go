package batches

import (
	"context"
	"errors"
)

// A Native is the batch as a provider runs it by a batch API of its own. Between two looks at it the batch is put off
// in the queue, and costs nobody anything.
type Native struct {
	Provider string `json:"provider"`
	Model    string `json:"model"` // the provider's name
	// Since is when it was first tried to be submitted, as Unix time in seconds. 0: not yet.
	Since int64 `json:"since,omitempty"`
	// Remote is the provider's id of it, once that is known.
	Remote string `json:"remote,omitempty"`
	Polls  int    `json:"polls,omitempty"`
	// Completed and Failed are lines by the provider's count.
	Completed int `json:"completed,omitempty"`
	Failed    int `json:"failed,omitempty"`
	// StopAt is when the provider was asked to stop it, as Unix time in seconds.
	StopAt int64 `json:"stop_at,omitempty"`
	// Over says that the provider has nothing to do with it any more: what it left is asked line by line.
	Over bool `json:"over,omitempty"`
}

func (n *Native) active() bool { return n != nil && !n.Over }

// progress returns the counts, or the provider's where they say more.
func (n *Native) progress(c Counts) Counts {
	if n.active() && n.Completed+n.Failed > c.Completed+c.Failed && n.Completed+n.Failed <= c.Total {
		c.Completed, c.Failed = n.Completed, n.Failed
	}
	return c
}

// nativeFor returns how a batch whose lines all name a model begins at the provider's own batch API, or nil if it
// is run line by line. One with lines that refer to what the provider keeps is, unless its tenant may do so: the
// gateway judges each line.
func (w *work) nativeFor(ctx context.Context, model string, refers bool) (*Native, error) {
	if model == "" {
		return nil, nil
	}
	c := w.s.Config()
	if c == nil {
		return nil, errors.New("there is no configuration yet")
	}
	p, upstream, ok := c.Target(model)
	if !ok || !p.Config.GetNativeBatches() || p.Vendor.Batches == nil {
		return nil, nil
	}
	if refers && w.rec.Tenant.Organization != "" && !p.Config.GetSharedObjects() {
		return nil, nil
	}
	limited, err := w.limited(ctx, model, p.Config.GetName())
	if err != nil || limited {
		return nil, err
	}
	return &Native{Provider: p.Config.GetName(), Model: upstream}, nil
}
