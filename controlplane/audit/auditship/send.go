package auditship

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net"
	"os"
	"sync"
	"time"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/allowed"
	"github.com/modelgate/modelgate/internal/secret"
	"github.com/modelgate/modelgate/internal/webhook"
)

const (
	// networkFlag is the flag that allows private networks.
	networkFlag = "--alert-network"
	// attemptTimeout bounds an attempt.
	attemptTimeout = 30 * time.Second
)

// A result is what came of an attempt. Says is why it failed, for people, without secrets; empty: the batch is taken.
type result struct {
	says     string
	after    time.Duration // that the receiver wants to be left alone
	tooLarge bool          // a smaller batch may be taken
}

// A sender makes attempts.
type sender struct {
	client        *webhook.Client
	secure, plain *net.Dialer // of syslog
	credential    func(*configv1.AuditSink) (secret.Value, error)
	allowed       *allowed.List
	host          string        // that syslog names
	patience      time.Duration // bounds an attempt

	files sync.Map // of *semaphore.Weighted of one, by path: whoever writes the file
	write func(*os.File, []byte) (int, error)
}

func newSender(o Options) (*sender, error) {
	client, err := webhook.New(o.Networks)
	if err != nil {
		return nil, err
	}
	secure, plain, err := webhook.Dialers(o.Networks)
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	return &sender{client: client, secure: secure, plain: plain, credential: o.Plane.SinkCredential,
		allowed: o.Allowed, host: nameOf(host), patience: attemptTimeout, write: (*os.File).Write}, nil
}

// send makes one attempt to deliver a batch to a sink. The flags of the process are asked each time: the configuration
// alone does not decide what is written where.
func (s *sender) send(ctx context.Context, sink *configv1.AuditSink, b batch) result {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	if s.allowed.Check(sink) != nil {
		if sink.GetFile() != nil {
			return result{says: "its file is not allowed (--audit-file)"}
		}
		return result{says: "its credential is not allowed (--credential-env, --credential-file)"}
	}
	credential, err := s.credential(sink)
	if err != nil {
		return result{says: "its credential cannot be had"}
	}
	switch {
	case sink.GetSyslog() != nil:
		return s.syslog(ctx, sink.GetSyslog(), b)
	case sink.GetOtlp() != nil:
		return s.otlp(ctx, sink.GetOtlp(), credential, b)
	case sink.GetFile() != nil:
		return s.file(ctx, sink.GetFile().GetPath(), b)
	}
	return posted(s.client.Post(ctx, sink.GetWebhook().GetUrl(), webhook.Message{ID: b.id(), Body: webhookBody(b),
		Secret: credential.Reveal(), Signed: true}, time.Now()))
}

func posted(r webhook.Result) result {
	if r.Outcome == webhook.Delivered {
		return result{}
	}
	return result{says: r.Says(networkFlag), after: r.After, tooLarge: r.Status == 413}
}

// broken returns the result of a connection that failed.
func broken(err error) result {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return result{says: "its certificate is not trusted"}
	}
	return posted(webhook.Result{Outcome: webhook.Reason(err)})
}

// webhookBody returns the body for a webhook, which is the same at each attempt with the same entries.
func webhookBody(b batch) []byte {
	entries := make([]json.RawMessage, len(b.items))
	for i, item := range b.items {
		entries[i] = item.json
	}
	body, _ := webhook.Event(b.id(), b.items[len(b.items)-1].At.Unix(), "audit.entries",
		map[string][]json.RawMessage{"entries": entries}) // it has nothing that cannot be written
	return body
}
