package allinone

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"go.uber.org/zap"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/datadir"
	"github.com/modelgate/modelgate/internal/httpapi"
	"github.com/modelgate/modelgate/internal/parts"
	"github.com/modelgate/modelgate/internal/proc"
	jobsapp "github.com/modelgate/modelgate/jobsvc/app"
)

// blobs returns the address of the blob store.
func (g *gateway) blobs() string {
	if g.options.Jobs.Blobs != "" {
		return g.options.Jobs.Blobs
	}
	return datadir.Blobs(g.data.Path)
}

func (g *gateway) startJobs(ctx context.Context) error {
	l, err := proc.Listen("unix://" + g.socket("jobs"))
	if err != nil {
		return err
	}
	o := g.options.Jobs
	o.Blobs, o.Listener, o.Gateway, o.Etcd, o.XDS = g.blobs(), l, "unix://"+g.socket("internal"), g.etcd, g.xds
	o.Node, o.Memory, o.Telemetry, o.Log = node, g.memory, g.telemetry, g.log
	o.Ending, o.Gate, o.Room = &parts.Ending{}, g.jobsGate, g.room
	if g.jobs, err = jobsapp.Start(ctx, g.parts, o); err != nil {
		g.jobsAway(fmt.Errorf("%s cannot be used: %w", o.Blobs, err))
		return l.Close()
	}
	return nil
}

// jobsAway notes why there is no job service. What only it needs ends no other traffic: its paths are 503.
func (g *gateway) jobsAway(err error) {
	why := err.Error()
	g.jobsTrouble.Store(&why)
	g.log.Error("the job service is unavailable until you fix this and restart the gateway: files, batches and fine-tuning get 503; other requests are served",
		zap.String("blobs", g.data.File(datadir.DirBlobs)), zap.Error(err))
}

// runJobs runs the workers. One that cannot go on does not end the gateway.
func (g *gateway) runJobs(ctx context.Context) error {
	if err := g.jobs.Run(ctx); ctx.Err() == nil {
		if err == nil {
			err = errors.New("it ended by itself")
		}
		g.jobsAway(err)
		<-ctx.Done()
	}
	return nil
}

// jobsReady reports that the job service is still starting. If there is none, the gateway serves all the same.
func (g *gateway) jobsReady() error {
	if g.jobsTrouble.Load() != nil {
		return nil
	}
	return g.jobs.Ready()
}

// jobsNote is why there is no job service.
func (g *gateway) jobsNote() (string, bool) {
	if why := g.jobsTrouble.Load(); why != nil {
		return adminapi.SaysNoJobs + *why, true
	}
	return "", false
}

// jobsGate refuses requests while there is no job service: nothing is written into a store that is another gateway's.
func (g *gateway) jobsGate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.jobsTrouble.Load() == nil {
			next.ServeHTTP(w, r)
			return
		}
		httpapi.WriteError(w, r, openai.CodeJobsUnavailable.New("The job service, which serves files, batches and fine-tuning, is unavailable."))
	})
}
