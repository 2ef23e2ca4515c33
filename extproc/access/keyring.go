package access

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"net/netip"
	"runtime"
	"sync"
	"time"
	"unique"
	"weak"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/auth"
)

// A Client is what exchanges know of a key. It is immutable, and what it holds is shared with other clients.
type Client struct {
	Name, DisplayName, Organization, Project string
	// Models and Endpoints are names or patterns. Empty: all.
	Models, Endpoints []string
	// Addresses that it may be used from. Empty: all.
	Addresses []netip.Prefix
	Disabled  bool
	Expires   int64 // Unix seconds; 0: never
	Limits    []*configv1.Limit
	Budgets   []*configv1.Budget
}

// shards is into how many parts a Keyring is divided. A change copies the parts that it is in.
const shards = 1024

// A Keyring finds keys by their hashes and names. It is immutable and takes about 300 bytes a key, as what keys have
// in common is kept once. The zero value and nil have no keys.
type Keyring struct {
	names  [shards]map[string]*record
	hashes [shards]map[auth.Hash]*record
	size   int
	shared *boundsTable
}

// A record is a key in a Keyring. It is immutable.
type record struct {
	name, displayName     string
	organization, project unique.Handle[string]

	bounds   *bounds
	hash     auth.Hash
	retired  *retired // nil: no rotation has replaced a key
	expires  int64
	disabled bool
}

// A retired key was replaced by a rotation.
type retired struct {
	hash    auth.Hash
	expires int64 // Unix nanoseconds
}

// ByHash returns the key with a hash at a time, or the key that a rotation has put in its place, or nil where there is
// none or the replaced one is past its time. That the key is disabled or has expired is for the caller to see.
func (r *Keyring) ByHash(h auth.Hash, now time.Time) *Client {
	if r == nil {
		return nil
	}
	k := r.hashes[shardOfHash(h)][h]
	if k == nil || k.hash != h && now.UnixNano() >= k.retired.expires {
		return nil
	}
	return k.client()
}

// ByName returns the key of a name, or nil.
func (r *Keyring) ByName(name string) *Client {
	if r == nil {
		return nil
	}
	k := r.names[shardOfName(name)][name]
	if k == nil {
		return nil
	}
	return k.client()
}

// Len returns how many keys there are.
func (r *Keyring) Len() int {
	if r == nil {
		return 0
	}
	return r.size
}

func (k *record) client() *Client {
	return &Client{
		Name: k.name, DisplayName: k.displayName, Organization: k.organization.Value(), Project: k.project.Value(),
		Models: k.bounds.models, Endpoints: k.bounds.endpoints, Addresses: k.bounds.addresses,
		Disabled: k.disabled, Expires: k.expires,
		Limits: k.bounds.limits, Budgets: k.bounds.budgets,
	}
}

// With returns a Keyring in which the named keys are changed, or gone where the value is nil. The keys must pass
// CheckHashes, and may not be modified afterwards. R stays as it is.
func (r *Keyring) With(changed map[string]*configv1.Key) *Keyring {
	next := &Keyring{shared: &boundsTable{known: map[[sha256.Size]byte]weak.Pointer[bounds]{}}}
	if r != nil && r.shared != nil {
		*next = *r
	}
	e := editor{ring: next, names: map[int]bool{}, hashes: map[int]bool{}}
	for name := range changed {
		e.remove(next.names[shardOfName(name)][name])
	}
	for name, k := range changed {
		if k != nil {
			e.add(next.shared.record(name, k))
		}
	}
	return next
}

// An editor changes a Keyring that nobody else has yet. It copies each shard before its first change.
type editor struct {
	ring          *Keyring
	names, hashes map[int]bool // shards that are copies already
}

func (e *editor) name(name string) map[string]*record {
	i := shardOfName(name)
	own(&e.ring.names[i], e.names, i)
	return e.ring.names[i]
}

func (e *editor) hash(h auth.Hash) map[auth.Hash]*record {
	i := shardOfHash(h)
	own(&e.ring.hashes[i], e.hashes, i)
	return e.ring.hashes[i]
}

func own[K comparable](shard *map[K]*record, done map[int]bool, i int) {
	switch {
	case done[i]:
	case *shard == nil:
		*shard = map[K]*record{}
	default:
		*shard = maps.Clone(*shard)
	}
	done[i] = true
}

func (e *editor) add(k *record) {
	e.name(k.name)[k.name] = k
	for _, h := range k.all() {
		e.hash(h)[h] = k
	}
	e.ring.size++
}

func (e *editor) remove(k *record) {
	if k == nil {
		return
	}
	delete(e.name(k.name), k.name)
	for _, h := range k.all() {
		if in := e.hash(h); in[h] == k {
			delete(in, h)
		}
	}
	e.ring.size--
}

func (k *record) all() []auth.Hash {
	if k.retired == nil {
		return []auth.Hash{k.hash}
	}
	return []auth.Hash{k.retired.hash, k.hash}
}

func shardOfHash(h auth.Hash) int { return int(binary.LittleEndian.Uint16(h[:])) % shards }

// shardOfName is FNV-1a.
func shardOfName(name string) int {
	sum := uint32(2166136261)
	for i := range len(name) {
		sum = (sum ^ uint32(name[i])) * 16777619
	}
	return int(sum % shards)
}

// bounds are what keys often have in common.
type bounds struct {
	models, endpoints []string
	addresses         []netip.Prefix
	limits            []*configv1.Limit
	budgets           []*configv1.Budget
}

// A boundsTable finds bounds that are in use, so that equal ones are kept once. It is safe for concurrent use.
type boundsTable struct {
	mu    sync.Mutex // guards known
	known map[[sha256.Size]byte]weak.Pointer[bounds]
}

func (t *boundsTable) record(name string, k *configv1.Key) *record {
	out := &record{
		name: name, displayName: k.GetDisplayName(),
		organization: unique.Make(k.GetOrganization()), project: unique.Make(k.GetProject()),
		bounds: t.of(k), hash: hashOf(k.GetHash()), disabled: k.GetDisabled(),
	}
	if e := k.GetExpiresAt(); e != nil {
		out.expires = max(e.GetSeconds(), 1)
	}
	if old := k.GetRetired(); old != nil {
		out.retired = &retired{hash: hashOf(old.GetHash()), expires: old.GetExpiresAt().AsTime().UnixNano()}
	}
	return out
}

func hashOf(sum []byte) (h auth.Hash) {
	copy(h[:], sum)
	return h
}

// of returns the bounds of a key, which are those of another key where they are equal.
func (t *boundsTable) of(k *configv1.Key) *bounds {
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(&configv1.Key{
		Models: k.GetModels(), Endpoints: k.GetEndpoints(), Addresses: k.GetAddresses(), Limits: k.GetLimits(),
		Budgets: k.GetBudgets(),
	})
	if err != nil {
		panic(err) // it has come over the wire, so its text is UTF-8
	}
	sum := sha256.Sum256(text)
	t.mu.Lock()
	defer t.mu.Unlock()
	if b := t.known[sum].Value(); b != nil {
		return b
	}
	b := &bounds{models: k.GetModels(), endpoints: k.GetEndpoints(), limits: k.GetLimits(), budgets: k.GetBudgets()}
	for _, text := range k.GetAddresses() {
		prefix, _ := configv1.ParseAddress(text) // one that cannot be read lets nobody in
		b.addresses = append(b.addresses, prefix)
	}
	t.known[sum] = weak.Make(b)
	runtime.AddCleanup(b, t.forget, sum)
	return b
}

// forget drops bounds that no key has any more.
func (t *boundsTable) forget(sum [sha256.Size]byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known[sum].Value() == nil {
		delete(t.known, sum)
	}
}
