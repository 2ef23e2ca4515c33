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
	"github.com/modelgate/modelgate/internal/jwtauth"
	"github.com/modelgate/modelgate/internal/request"
)

// A Client is the part of a key that exchanges use. It is immutable and shares its fields with other clients.
type Client struct {
	Name, DisplayName, Organization, Project string
	// Names or patterns. Empty: all.
	Models, Endpoints []string
	// Addresses that the key may be used from. Empty: all.
	Addresses []netip.Prefix
	Disabled  bool
	Expires   int64 // Unix seconds; 0: never
	Limits    []*configv1.Limit
	Budgets   []*configv1.Budget
	Bodies    *configv1.Bodies
	// Token that acts as the key; nil: none does.
	Token *jwtauth.Principal
}

// Subject returns who a request with the key, from an address, is from.
func (k *Client) Subject(address string) request.Subject {
	s := request.Subject{Key: k.Name, KeyName: k.DisplayName, Organization: k.Organization, Project: k.Project,
		Address: address}
	if k.Token != nil {
		s.User, s.Token = k.Token.User, k.Token.Claims
	}
	return s
}

// Tenant returns a name for the organization of the key, or for the key if it has none.
func (k *Client) Tenant() string { return tenantOf(k.Organization, k.Name) }

func tenantOf(organization, key string) string {
	if organization == "" {
		return "key/" + key
	}
	return "organization/" + organization
}

// shards is the number of parts of a Keyring. A change copies only the parts that it affects.
const shards = 1024

// A Keyring finds keys by their hashes and names. It is immutable. It takes about 300 bytes per key, because equal
// bounds of keys are stored once. The zero value and nil have no keys.
type Keyring struct {
	names  [shards]map[string]*record
	hashes [shards]map[auth.Hash]*record
	size   int
	shared *boundsTable
	// gone are the names of keys that were removed of late, so that requests with them can be told.
	gone map[auth.Hash]string
}

// maxGone bounds the keys that were removed and are still known.
const maxGone = 1000

// A record is a key in a Keyring. It is immutable.
type record struct {
	name, displayName     string
	organization, project unique.Handle[string]

	bounds   *bounds
	hash     auth.Hash
	retired  *retired // nil: no rotation
	expires  int64
	disabled bool
}

// A retired key was replaced by a rotation.
type retired struct {
	hash    auth.Hash
	expires int64 // Unix nanoseconds
}

// ByHash returns the key with a hash, or the key that a rotation has put in its place. It returns nil if there is
// none, or if the replaced key has expired. The caller must check whether the key is disabled or has expired.
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

// ByName returns the key with a name, or nil.
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

// Len returns the number of keys.
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
		Limits: k.bounds.limits, Budgets: k.bounds.budgets, Bodies: k.bounds.bodies,
	}
}

// With returns a copy of the Keyring with changed keys. A nil value removes a key. The keys must pass CheckHashes, and
// must not be modified later. The Keyring itself does not change.
func (r *Keyring) With(changed map[string]*configv1.Key) *Keyring {
	next := &Keyring{shared: &boundsTable{known: map[[sha256.Size]byte]weak.Pointer[bounds]{}}}
	if r != nil && r.shared != nil {
		*next = *r
	}
	e := editor{ring: next, names: map[int]bool{}, hashes: map[int]bool{}}
	for name, k := range changed {
		was := next.names[shardOfName(name)][name]
		e.remove(was)
		if was != nil && k == nil {
			e.forget(was)
		}
	}
	for name, k := range changed {
		if k != nil {
			e.add(next.shared.record(name, k))
		}
	}
	return next
}

// An editor changes a Keyring that is not published yet. It copies each shard before its first change.
type editor struct {
	ring          *Keyring
	names, hashes map[int]bool // shards that are copied already
	gone          bool         // likewise
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

// forget keeps the name of a key that is removed, in the place of another if there are many.
func (e *editor) forget(k *record) {
	if !e.gone {
		e.ring.gone, e.gone = maps.Clone(e.ring.gone), true
	}
	if e.ring.gone == nil {
		e.ring.gone = map[auth.Hash]string{}
	}
	for h := range e.ring.gone {
		if len(e.ring.gone) < maxGone {
			break
		}
		delete(e.ring.gone, h)
	}
	e.ring.gone[k.hash] = k.name
}

// removed returns the name of a key that was removed of late, as a client, or nil.
func (r *Keyring) removed(h auth.Hash) *Client {
	if r == nil || r.gone[h] == "" {
		return nil
	}
	return &Client{Name: r.gone[h]}
}

func (k *record) all() []auth.Hash {
	if k.retired == nil {
		return []auth.Hash{k.hash}
	}
	return []auth.Hash{k.retired.hash, k.hash}
}

func shardOfHash(h auth.Hash) int { return int(binary.LittleEndian.Uint16(h[:])) % shards }

// shardOfName uses FNV-1a.
func shardOfName(name string) int {
	sum := uint32(2166136261)
	for i := range len(name) {
		sum = (sum ^ uint32(name[i])) * 16777619
	}
	return int(sum % shards)
}

// bounds are the fields of a key that often equal those of other keys.
type bounds struct {
	models, endpoints []string
	addresses         []netip.Prefix
	limits            []*configv1.Limit
	budgets           []*configv1.Budget
	bodies            *configv1.Bodies
}

// A boundsTable stores equal bounds once. It is safe for concurrent use.
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

// of returns the bounds of a key, shared with other keys if they are equal.
func (t *boundsTable) of(k *configv1.Key) *bounds {
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(&configv1.Key{
		Models: k.GetModels(), Endpoints: k.GetEndpoints(), Addresses: k.GetAddresses(), Limits: k.GetLimits(),
		Budgets: k.GetBudgets(), Bodies: k.GetBodies(),
	})
	if err != nil {
		panic(err) // it came over the wire, so its text is UTF-8
	}
	sum := sha256.Sum256(text)
	t.mu.Lock()
	defer t.mu.Unlock()
	if b := t.known[sum].Value(); b != nil {
		return b
	}
	b := &bounds{models: k.GetModels(), endpoints: k.GetEndpoints(), limits: k.GetLimits(), budgets: k.GetBudgets(),
		bodies: k.GetBodies()}
	for _, text := range k.GetAddresses() {
		prefix, _ := configv1.ParseAddress(text) // a malformed address matches nobody
		b.addresses = append(b.addresses, prefix)
	}
	t.known[sum] = weak.Make(b)
	runtime.AddCleanup(b, t.forget, sum)
	return b
}

// forget removes bounds that no key has any more.
func (t *boundsTable) forget(sum [sha256.Size]byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known[sum].Value() == nil {
		delete(t.known, sum)
	}
}
