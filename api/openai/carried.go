package openai

import (
	"bytes"
	"compress/flate"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/internal/jsonwalk"
)

// A stock client sends back the text of an assistant's turn, and the id, name and arguments of its calls. Other data
// that a vendor needs again, such as the signature of its thinking, is therefore put into the id of a tool call. Such
// an id is the vendor's id, the mark, and in base64url: a MAC, and the data, deflated. All of it is letters, digits,
// "_" and "-", because some clients accept nothing else in ids. Codecs get ids without it.
//
// Without the MAC a client could write such ids itself, with text that no guardrail looks at. The MAC is bound to the
// client's key and organization. So nobody else's data is accepted either.

// CarriedMark separates a tool call's id from the carried data. No vendor's id contains it. In an id the first one
// counts: base64url may contain others.
const CarriedMark = "_-mg-_"

// maxCarried bounds the carried data, in bytes before and after compression.
const maxCarried = 256 << 10

// macSize is the size of a MAC: HMAC-SHA-256, cut to 128 bits.
const macSize = 16

// A CarrierKey signs what ids carry, for all clients. Nil signs nothing.
type CarrierKey struct{ secret []byte }

// NewCarrierKey derives the key from a secret of the gateway.
func NewCarrierKey(secret []byte) *CarrierKey {
	h := hmac.New(sha256.New, secret)
	_, _ = h.Write([]byte("modelgate carried ids v1")) // a hash accepts everything
	return &CarrierKey{h.Sum(nil)}
}

// CarrierKeyOf returns the key whose Bytes are given, for a process that does not have the secret. It is nil if there
// are none.
func CarrierKeyOf(derived []byte) *CarrierKey {
	if len(derived) != sha256.Size {
		return nil
	}
	return &CarrierKey{derived}
}

// Bytes returns the bytes of the key. They do not reveal the secret from which the key is derived.
func (k *CarrierKey) Bytes() []byte { return k.secret }

// For returns what writes and reads the ids of a client: of a key, by its name, which stays as it is when the key is
// rotated.
func (k *CarrierKey) For(organization, key string) Carrier { return Carrier{k, organization, key} }

// A Carrier writes and reads ids with data for one client. The zero value carries nothing, and accepts nothing.
type Carrier struct {
	by                *CarrierKey
	organization, key string
}

// HasCarried reports whether a body may have an id with data.
func HasCarried(body []byte) bool { return bytes.Contains(body, []byte(CarriedMark)) }

// Carry returns id with data, a JSON value that must come back with the call. Data that is empty or too large is
// omitted.
func (c Carrier) Carry(id string, data []byte) string {
	if c.by == nil || len(data) == 0 || len(data) > maxCarried {
		return id
	}
	shown, hidden := id, ""
	if !isPlainID(id) {
		shown, hidden = "call", id
	}
	b := bytes.NewBuffer(make([]byte, macSize, 512))
	b.Write(binary.AppendUvarint(nil, uint64(len(hidden))))
	b.WriteString(hidden)
	z := deflaters.Get().(*flate.Writer)
	defer deflaters.Put(z)
	z.Reset(b)
	_, _ = z.Write(data) // a bytes.Buffer accepts everything
	_ = z.Close()
	packed := b.Bytes()
	copy(packed, c.mac(shown, packed[macSize:]))
	return shown + CarriedMark + base64.RawURLEncoding.EncodeToString(packed)
}

// isPlainID reports whether an id can stand before the mark.
func isPlainID(id string) bool {
	for i := range len(id) {
		c := id[i]
		if letter, digit := c|0x20 >= 'a' && c|0x20 <= 'z', c >= '0' && c <= '9'; !letter && !digit && c != '_' && c != '-' {
			return false
		}
	}
	// The mark begins where it does by its last byte at the latest: "_-mg-" before it would make another.
	return !strings.Contains(id+CarriedMark[:len(CarriedMark)-1], CarriedMark)
}

func (c Carrier) mac(id string, packed []byte) []byte {
	h := hmac.New(sha256.New, c.by.secret)
	var size [8]byte
	for _, part := range [...]string{c.organization, c.key, id} {
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		_, _ = h.Write(size[:])
		_, _ = io.WriteString(h, part)
	}
	_, _ = h.Write(packed)
	return h.Sum(nil)[:macSize]
}

// deflaters is a pool of writers, because each has tables of a megabyte.
var deflaters = sync.Pool{New: func() any {
	z, _ := flate.NewWriter(nil, flate.BestSpeed) // the level is valid
	return z
}}

// Split returns the id and the data of Carry. Of an id with the mark that Carry did not write for this client, nothing
// is read. It is an id: a short one stands for it, because vendors bound the length of ids.
func (c Carrier) Split(carrying string) (id string, data jsontext.Value) {
	id, data, _ = c.split(carrying, maxCarried)
	return id, data
}

// Bare is Split without the data.
func (c Carrier) Bare(carrying string) string {
	id, _ := c.open(carrying)
	return id
}

// A Stripper puts bare ids in the place of ids with data, in one pass over a body.
type Stripper struct {
	By   Carrier
	Body []byte

	done []byte
	from int // what of Body is not in done
}

// Strip takes the next id: its place in Body, and its JSON there.
func (s *Stripper) Strip(at int, raw, id string) {
	if bare := s.By.Bare(id); bare != id && at >= s.from {
		s.done = AppendString(append(s.done, s.Body[s.from:at]...), bare)
		s.from = at + len(raw)
	}
}

// Stripped returns the body with the ids.
func (s *Stripper) Stripped() []byte {
	if s.from == 0 {
		return s.Body
	}
	return append(s.done, s.Body[s.from:]...)
}

// open returns the id, and the deflated data, or nil.
func (c Carrier) open(carrying string) (id string, deflated []byte) {
	shown, text, found := strings.Cut(carrying, CarriedMark)
	if !found {
		return carrying, nil
	}
	if packed, ok := c.verified(shown, text); ok {
		n, size := binary.Uvarint(packed)
		hidden := packed[size : size+int(n)]
		if n > 0 {
			shown = string(hidden)
		}
		return shown, packed[size+int(n):]
	}
	sum := sha256.Sum256([]byte(carrying))
	return "call_" + base64.RawURLEncoding.EncodeToString(sum[:18]), nil
}

// verified returns what a text is that this carrier has signed.
func (c Carrier) verified(shown, text string) (packed []byte, ok bool) {
	if c.by == nil || strings.ContainsAny(text, "\r\n") { // which the decoder skips
		return nil, false
	}
	packed, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(packed) <= macSize {
		return nil, false
	}
	mac, packed := packed[:macSize], packed[macSize:]
	return packed, hmac.Equal(mac, c.mac(shown, packed))
}

// split is Split for data of at most limit bytes. It also returns the number of inflated bytes, valid or not.
func (c Carrier) split(carrying string, limit int) (id string, data jsontext.Value, inflated int) {
	id, deflated := c.open(carrying)
	if deflated == nil || limit <= 0 {
		return id, nil, 0
	}
	z := inflaters.Get().(io.Reader)
	defer inflaters.Put(z)
	_ = z.(flate.Resetter).Reset(bytes.NewReader(deflated), nil) // never fails
	data, err := io.ReadAll(io.LimitReader(z, int64(limit)+1))
	if err != nil || len(data) > limit || !jsonwalk.Strict(data) {
		return id, nil, len(data)
	}
	return id, data, len(data)
}

var inflaters = sync.Pool{New: func() any { return flate.NewReader(bytes.NewReader(nil)) }}

// splitIDs splits the ids of all calls. The size is the body's: a client may send an id often.
func (c *Chat) splitIDs(by Carrier, size int) {
	left := 4*size + maxCarried
	for i := range c.Messages {
		m := &c.Messages[i]
		m.ToolCallID = by.Bare(m.ToolCallID)
		for j := range m.ToolCalls {
			t := &m.ToolCalls[j]
			var inflated int
			t.ID, t.Carried, inflated = by.split(t.ID, min(left, maxCarried))
			left -= inflated
		}
	}
}

// dropCarried puts bare ids into the messages of a body that was checked. Other strings do not change, even if a text
// looks like an id with data.
func (r *ChatRequest) dropCarried() {
	if !HasCarried(r.Body) {
		return
	}
	messages := r.Get("messages")
	c := &cursor{data: messages}
	var out []byte
	from := 0
	id := func() {
		if c.peek() != '"' {
			c.value()
			return
		}
		start := c.at
		full := string(c.str())
		if bare := r.carrier.Bare(full); bare != full {
			out, from = AppendString(append(out, messages[from:start]...), bare), c.at
		}
	}
	for c.enter(); c.more(); {
		for c.enter(); c.more(); {
			switch name := string(c.str()); {
			case name == "tool_call_id":
				id()
			case name == "tool_calls" && c.peek() == '[':
				for c.enter(); c.more(); {
					eachID(c, id)
				}
			default:
				c.value()
			}
		}
	}
	if from > 0 {
		sent := r.Object
		r.sent = &sent
		r.replace("messages", append(out, messages[from:]...))
	}
}

// eachID steps over a call, and calls id to step over its id.
func eachID(c *cursor, id func()) {
	for c.enter(); c.more(); {
		if string(c.str()) == "id" {
			id()
		} else {
			c.value()
		}
	}
}

// replace changes the value of an existing member.
func (m *Members) replace(name string, value []byte) {
	i := m.find(name)
	m.members = slices.Clone(m.members)
	of := &m.members[i]
	grown := len(value) - (of.end - of.start)
	m.Body = slices.Concat(m.Body[:of.start], value, m.Body[of.end:])
	of.end += grown
	for i++; i < len(m.members); i++ {
		of := &m.members[i]
		of.nameStart, of.start, of.end = of.nameStart+grown, of.start+grown, of.end+grown
	}
}
