package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/api/openai"
)

// A memoryLedger keeps audit entries in memory. While it is away it takes and gives none.
type memoryLedger struct {
	memoryVersions
	mu      sync.Mutex // guards what follows
	entries map[string]adminapi.AuditEntry
	away    bool
}

func (m *memoryLedger) setAway(away bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.away = away
}

// AppendAudit keeps entries by their ids.
func (m *memoryLedger) AppendAudit(_ context.Context, entries []adminapi.AuditEntry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return errors.New("the ledger is away")
	}
	for _, e := range entries {
		if _, ok := m.entries[e.ID]; !ok {
			m.entries[e.ID] = e
		}
	}
	return nil
}

// AuditAfter returns entries by their ids.
func (m *memoryLedger) AuditAfter(_ context.Context, id string, limit int) (found []adminapi.AuditEntry, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return nil, errors.New("the ledger is away")
	}
	for _, name := range slices.Sorted(maps.Keys(m.entries)) {
		if name > id && len(found) < limit {
			found = append(found, m.entries[name])
		}
	}
	return found, nil
}

// AuditEnds returns the ends of the chain.
func (m *memoryLedger) AuditEnds(context.Context) (oldest, newest adminapi.AuditEntry, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return oldest, newest, errors.New("the ledger is away")
	}
	for _, e := range m.entries {
		if e.Sequence > newest.Sequence {
			newest = e
		}
		if e.Sequence > 0 && (oldest.Sequence == 0 || e.Sequence < oldest.Sequence) {
			oldest = e
		}
	}
	return oldest, newest, nil
}

// AppendVersions keeps versions by their ids.
func (m *memoryLedger) AppendVersions(ctx context.Context, versions []adminapi.Version) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return errors.New("the ledger is away")
	}
	return m.memoryVersions.AppendVersions(ctx, versions)
}

// Audit returns a page, newest first, of which it knows the filter by action alone.
func (m *memoryLedger) Audit(_ context.Context, o adminapi.ListOptions) (adminapi.Page[adminapi.AuditEntry], error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var page adminapi.Page[adminapi.AuditEntry]
	if m.away {
		return page, errors.New("the ledger is away")
	}
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(m.entries))) {
		e := m.entries[name]
		if o.After != "" && name >= o.After || o.Filters["action"] != "" && e.Action != o.Filters["action"] {
			continue
		}
		if len(page.Items) == o.Limit {
			page.Next = page.Items[len(page.Items)-1].ID
			break
		}
		page.Items = append(page.Items, e)
	}
	return page, nil
}

// memoryJobs has one job.
type memoryJobs struct{}

func one() adminapi.Page[adminapi.TenantObject] {
	return adminapi.Page[adminapi.TenantObject]{Items: []adminapi.TenantObject{{Organization: "org", Key: "key_1",
		Object: json.RawMessage(`{"id":"batch_1"}`)}}}
}

// Batches returns one.
func (*memoryJobs) Batches(context.Context, adminapi.ListOptions) (adminapi.Page[adminapi.TenantObject], error) {
	return one(), nil
}

// Batch returns the batch, whatever its id.
func (*memoryJobs) Batch(context.Context, string) (adminapi.TenantObject, error) {
	return one().Items[0], nil
}

// CancelBatch returns the batch, whatever its id.
func (*memoryJobs) CancelBatch(context.Context, string) (adminapi.TenantObject, error) {
	return one().Items[0], nil
}

// BatchFailures returns one.
func (*memoryJobs) BatchFailures(context.Context, string, int) ([]adminapi.BatchFailure, error) {
	return []adminapi.BatchFailure{{CustomID: "a", Status: http.StatusBadRequest, ErrorCode: "invalid_value",
		Message: "No."}}, nil
}

// BatchFile returns the name of a file as its content.
func (*memoryJobs) BatchFile(_ context.Context, _, which string) (string, io.ReadCloser, error) {
	return which + ".jsonl", io.NopCloser(strings.NewReader(which)), nil
}

// Quotas returns those of one tenant.
func (*memoryJobs) Quotas(context.Context, adminapi.ListOptions) (adminapi.Page[adminapi.TenantQuotas], error) {
	return adminapi.Page[adminapi.TenantQuotas]{Items: []adminapi.TenantQuotas{{
		Organization: "org", Quotas: []adminapi.QuotaUse{{Name: "open_batches", Used: 1, Limit: 4000}},
	}}}, nil
}

// FineTuningJobs returns one.
func (*memoryJobs) FineTuningJobs(context.Context, adminapi.ListOptions) (adminapi.Page[adminapi.TenantObject],
	error) {
	return one(), nil
}

// FineTuningJob knows ftjob-1.
func (*memoryJobs) FineTuningJob(_ context.Context, id string) (adminapi.TenantObject, error) {
	if id != "ftjob-1" {
		return adminapi.TenantObject{}, &openai.Error{Status: http.StatusNotFound, Type: openai.TypeInvalidRequest,
			Code: "not_found", Message: "There is no such job."}
	}
	return one().Items[0], nil
}

// FineTuningEvents returns one.
func (*memoryJobs) FineTuningEvents(context.Context, string, adminapi.ListOptions) (adminapi.Page[json.RawMessage],
	error) {
	return adminapi.Page[json.RawMessage]{Items: []json.RawMessage{
		json.RawMessage(`{"id":"ftevent-1","type":"metrics","data":{"train_loss":0.5}}`)}}, nil
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
