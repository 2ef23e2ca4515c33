package batches

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/tidwall/gjson"
	clientv3 "go.etcd.io/etcd/client/v3"
	"gocloud.dev/blob"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/jobsvc/files"
	"github.com/modelgate/modelgate/jobsvc/queue"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// Cancel asks for the end of a batch, which its worker brings about, and returns the batch. It returns
// [store.ErrNotFound] if there is none, and a 409 of OpenAI's if its end has come another way.
func Cancel(ctx context.Context, s *store.Store, t store.Tenant, id string, now time.Time) (*store.Record[Batch],
	error) {
	for {
		b, err := Kind.Get(ctx, s, t, id)
		if err != nil {
			return nil, err
		}
		changed, err := asked(&b.Value, now)
		if err != nil || !changed {
			return b, err
		}
		tx := s.Begin()
		Kind.Update(tx, b)
		tx.Do(queue.Put(itemOf(b, now))) // one that waits for a provider's own batch is due
		err = tx.Commit(ctx)
		if errors.Is(err, store.ErrConflict) && ctx.Err() == nil {
			continue // a running batch's record changes all the time
		}
		return b, err
	}
}

// Running says how far a batch is; nil: it is over, or its provider runs it.
func Running(r *store.Record[Batch]) *adminapi.RunningBatch {
	b := &r.Value
	if b.Status.Over() || b.Native != nil {
		return nil
	}
	running := &adminapi.RunningBatch{ID: r.ID, Organization: r.Tenant.Organization, Project: r.Tenant.Project,
		Key: b.Key, Model: b.Model, Done: b.done(), Total: b.Counts.Total,
		Answered: time.Unix(max(b.CreatedAt, b.InProgressAt), 0).UTC()}
	if p := Progress(r); p != nil {
		running.Met = *p
		if p.AnsweredAt != nil {
			running.Answered = *p.AnsweredAt
		}
	}
	return running
}

// Waiting returns up to limit batches that are not over, the oldest first.
func Waiting(ctx context.Context, s *store.Store, etcd *clientv3.Client, limit int) ([]*store.Record[Batch], error) {
	items, err := queue.Oldest(ctx, etcd, kindQueue, limit)
	if err != nil {
		return nil, err
	}
	var all []*store.Record[Batch]
	for _, i := range items {
		var tenant store.Tenant
		if json.Unmarshal(i.Value, &tenant) != nil {
			continue // its worker says so
		}
		r, err := Kind.Get(ctx, s, tenant, i.ID)
		if errors.Is(err, store.ErrNotFound) {
			continue // it was deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// maxSegmentsRead bounds what Failures reads of a batch that runs: 16 MiB.
const maxSegmentsRead = 64

// maxFailureText bounds the message of a Failure, in bytes.
const maxFailureText = 500

// Failures returns up to limit failed lines of a batch: of one that runs the newest, among its last 16 MiB of answers;
// of one that has ended the first. They have no content of a request or of an answer.
func Failures(ctx context.Context, bucket *blob.Bucket, r *store.Record[Batch], limit int) ([]adminapi.BatchFailure,
	error) {
	if r.Value.ErrorFile != "" {
		return failuresOfFile(ctx, bucket, r.Value.ErrorFile, limit)
	}
	failures := []adminapi.BatchFailure{}
	if r.Value.Status.Over() {
		return failures, nil
	}
	for name, n := r.Value.Head, 0; name != "" && n < maxSegmentsRead && len(failures) < limit; n++ {
		var found []adminapi.BatchFailure
		err := readSegment(ctx, bucket, r.ID, name, func(kind byte, _ int, answer []byte) error {
			if kind == kindError {
				found = append(found, failureOf(answer))
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		slices.Reverse(found)
		failures = append(failures, found...)
		if name, err = previousOf(ctx, bucket, r.ID, name); err != nil {
			return nil, err
		}
	}
	return failures[:min(len(failures), limit)], nil
}

func failuresOfFile(ctx context.Context, bucket *blob.Bucket, file string, limit int) ([]adminapi.BatchFailure,
	error) {
	content, err := files.Open(ctx, bucket, file, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = content.Close() }() // it was only read
	failures := []adminapi.BatchFailure{}
	for lines := bufio.NewReaderSize(content, readBuffer); len(failures) < limit; {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			failures = append(failures, failureOf(line))
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
	}
	return failures, nil
}

// failureOf reads a line of an error file.
func failureOf(line []byte) adminapi.BatchFailure {
	all := gjson.ParseBytes(bytes.TrimSpace(line))
	f := adminapi.BatchFailure{CustomID: all.Get("custom_id").String(),
		Status: int(all.Get("response.status_code").Int()), RequestID: all.Get("response.request_id").String()}
	said := all.Get("error")
	if !said.IsObject() {
		said = all.Get("response.body.error")
	}
	f.ErrorCode, f.Message = said.Get("code").String(), said.Get("message").String()
	f.Message = clipped(f.Message, maxFailureText)
	return f
}

// clipped returns a text of about so many bytes at most.
func clipped(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return string(bytes.ToValidUTF8([]byte(text[:most]), nil)) + "…"
}
