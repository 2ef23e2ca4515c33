package bodies

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/internal/request"
	"github.com/modelgate/modelgate/internal/scan"
)

// maxBody bounds a body that is kept in part. A longer one could not be redacted as a whole, so that none of it is
// kept.
const maxBody = 4 << 20

// A Setting is what holds for a request.
type Setting struct {
	Bodies  *configv1.Bodies
	Subject string // the setting's owner
}

// Keeps reports whether the bodies of an exchange are in the share that is kept. It says the same of an id each time.
func (s *Setting) Keeps(id string) bool {
	sum := sha256.Sum256([]byte(id))
	const resolution = 1 << 53 // of a float64
	return float64(binary.BigEndian.Uint64(sum[:])>>11)/resolution < s.Bodies.GetShare()
}

// An Owner says whose bodies they are, and which exchange they belong to.
type Owner struct {
	ID    string
	Start time.Time
	request.Subject
}

// A Capture collects the bodies of one exchange. Nil collects nothing. It is used by one goroutine at a time.
type Capture struct {
	keeper          *Keeper
	setting         Setting
	owner           Owner
	request, answer part
	unseen          bool
}

// A part is one body as it came.
type part struct {
	media   string
	text    []byte
	bytes   int64
	omitted string // why there is no text
}

// Reasons for which a body has no text.
const (
	omittedLong   = "It is longer than 4194304 bytes."
	omittedUnseen = "It passed the gateway unread."
	omittedBinary = "It is not text."
	omittedWork   = "To redact it would have taken too much work."
	omittedBroken = "It is not well-formed, so that it could not be redacted."
)

// Begin returns a capture with the body of a request, or nil if there is no room.
func (k *Keeper) Begin(s Setting, media string, body []byte) *Capture {
	c := &Capture{keeper: k, setting: s}
	if !c.add(&c.request, body) {
		k.drop(droppedMemory)
		return nil
	}
	c.request.media = media
	return c
}

// add appends to a body, and returns false if there is no room.
func (c *Capture) add(p *part, piece []byte) bool {
	p.bytes += int64(len(piece))
	if p.omitted != "" {
		return true
	}
	if p.bytes > maxBody {
		c.keeper.held.Add(-int64(len(p.text)))
		p.text, p.omitted = nil, omittedLong
		return true
	}
	if c.keeper.held.Add(int64(len(piece))) > maxHeld {
		c.keeper.held.Add(-int64(len(piece)))
		return false
	}
	p.text = append(p.text, piece...)
	return true
}

// Answer adds a piece of the answer as the client gets it. It copies the piece.
func (c *Capture) Answer(piece []byte) {
	if c == nil || c.keeper == nil {
		return
	}
	if !c.add(&c.answer, piece) {
		c.release()
		c.keeper.drop(droppedMemory)
		c.keeper = nil // nothing more is collected
	}
}

// Unseen says that the answer passed without being shown.
func (c *Capture) Unseen() { c.unseen = true }

// End hands the bodies over. It never waits.
func (c *Capture) End(o Owner) {
	if c == nil || c.keeper == nil {
		return
	}
	c.owner = o
	select {
	case c.keeper.queue <- c:
	default:
		c.release()
		c.keeper.drop(droppedQueue)
	}
}

func (c *Capture) release() {
	c.keeper.held.Add(-int64(len(c.request.text) + len(c.answer.text)))
	c.request.text, c.answer.text = nil, nil
}

// kept redacts one body and cuts it.
func (p *part) kept(ctx context.Context, r *Rules, most int) *ledgerv1.KeptBody {
	b := &ledgerv1.KeptBody{ContentType: p.media, Bytes: p.bytes, Omitted: p.omitted}
	if p.omitted != "" || p.bytes == 0 {
		return b
	}
	var text string
	var n int
	var err error
	switch media, _, _ := strings.Cut(p.media, ";"); {
	case !utf8.Valid(p.text):
		b.Omitted = omittedBinary
		return b
	case media == mediaEvents:
		var whole []byte
		if whole, err = reassemble(p.text); err == nil {
			text, n, err = r.JSON(ctx, whole)
		}
	case media == mediaJSON || media == "": // as the gateway reads it
		text, n, err = r.JSON(ctx, p.text)
	default:
		b.Omitted = omittedBinary
		return b
	}
	switch {
	case errors.Is(err, scan.ErrSpent) || ctx.Err() != nil:
		b.Omitted = omittedWork
		return b
	case err != nil:
		b.Omitted = omittedBroken
		return b
	}
	b.Text, b.Cut = cut(text, most)
	b.Redacted = int64(n)
	return b
}

const (
	mediaJSON   = "application/json"
	mediaEvents = "text/event-stream"
)

// sniff returns the type of an answer that the gateway has shown or written.
func sniff(answer []byte) string {
	switch {
	case len(answer) == 0:
		return ""
	case answer[0] == '{' || answer[0] == '[':
		return mediaJSON
	case strings.HasPrefix(string(answer[:min(len(answer), 8)]), "data:"),
		strings.HasPrefix(string(answer[:min(len(answer), 8)]), "event:"), answer[0] == ':':
		return mediaEvents
	}
	return "application/octet-stream"
}
