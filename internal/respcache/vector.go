package respcache

import (
	"math"
	"slices"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// maxBucket is the most texts that one is compared with. The newest stay.
const maxBucket = 1000

// A vector is an embeddings model's vector for a text. Each component is a whole number of steps, and the
// largest has 127. So a vector takes a quarter of the room, and a cosine is at most 0.005 off.
type vector struct {
	steps  []int8
	square int64 // of its length
}

// vectorOf returns the vector of components, if they are numbers and not all zero.
func vectorOf(components []float32) (vector, bool) {
	largest := 0.0
	for _, c := range components {
		largest = max(largest, math.Abs(float64(c))) // that with NaN is NaN
	}
	if !(largest > 0) || math.IsInf(largest, 0) {
		return vector{}, false
	}
	steps := make([]int8, len(components))
	for i, c := range components {
		steps[i] = int8(math.Round(float64(c) / largest * math.MaxInt8))
	}
	return vector{steps, dot(steps, steps)}, true
}

// vectorIn returns the vector of steps that were stored.
func vectorIn(stored []byte) vector {
	steps := make([]int8, len(stored))
	for i, b := range stored {
		steps[i] = int8(b)
	}
	return vector{steps, dot(steps, steps)}
}

// dot returns the product of vectors of one length. The sum of the longest ones fits into 32 bits.
func dot(a, b []int8) int64 {
	var s, t, u, v int32
	for len(a) >= 4 && len(b) >= 4 {
		s += int32(a[0]) * int32(b[0])
		t += int32(a[1]) * int32(b[1])
		u += int32(a[2]) * int32(b[2])
		v += int32(a[3]) * int32(b[3])
		a, b = a[4:], b[4:]
	}
	for i := range min(len(a), len(b)) {
		s += int32(a[i]) * int32(b[i])
	}
	return int64(s + t + u + v)
}

// cosine returns how similar two vectors are, from -1 to 1. Vectors of models with other lengths are not.
func (v vector) cosine(o vector) float64 {
	if len(v.steps) != len(o.steps) || v.square == 0 || o.square == 0 {
		return -1
	}
	return float64(dot(v.steps, o.steps)) / math.Sqrt(float64(v.square)*float64(o.square))
}

// A neighbour is the key of an answer, and how similar its text is.
type neighbour struct {
	key    Key
	cosine float64
}

// A likeness is a text to whose request an answer was kept.
type likeness struct {
	vector vector
	key    Key
}

func (l *likeness) size() int { return len(l.vector.steps) + 128 }

// nearest returns those of likenesses that are at least so similar to a vector, the most similar first.
func nearest(all []likeness, to vector, least float64) []neighbour {
	var found []neighbour
	for i := range all {
		if cosine := all[i].vector.cosine(to); cosine >= least {
			found = append(found, neighbour{all[i].key, cosine})
		}
	}
	slices.SortStableFunc(found, func(a, b neighbour) int {
		switch {
		case a.cosine > b.cosine:
			return -1
		case a.cosine < b.cosine:
			return 1
		}
		return 0
	})
	return found
}

// An index has the likenesses of each bucket: of requests that are equal but for the text. Buckets that were not used
// for the longest time are dropped, if all need more than a number of bytes.
type index struct {
	most int

	mu      sync.Mutex // guards the fields below
	bytes   int
	buckets *simplelru.LRU[Key, []likeness] // whose elements do not change
}

func newIndex(most int) *index {
	x := &index{most: most}
	const many = 1 << 30 // the bytes are the bound
	x.buckets, _ = simplelru.NewLRU[Key, []likeness](many, nil)
	return x
}

func (x *index) find(bucket Key) []likeness {
	x.mu.Lock()
	defer x.mu.Unlock()
	all, _ := x.buckets.Get(bucket)
	return all
}

// add adds a likeness, in place of one of the same answer.
func (x *index) add(bucket Key, l likeness) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.remove(bucket, l.key)
	all, _ := x.buckets.Get(bucket)
	x.buckets.Add(bucket, append(all, l))
	x.bytes += l.size()
	if len(all) >= maxBucket {
		x.dropFirst(bucket)
	}
	for x.bytes > x.most {
		oldest, few, _ := x.buckets.GetOldest()
		if oldest == bucket { // there is no other
			x.dropFirst(bucket)
			continue
		}
		for i := range few {
			x.bytes -= few[i].size()
		}
		x.buckets.Remove(oldest)
	}
}

// dropFirst drops the oldest likeness of a bucket.
func (x *index) dropFirst(bucket Key) {
	all, _ := x.buckets.Peek(bucket)
	x.bytes -= all[0].size()
	x.put(bucket, all[1:])
}

// put replaces the likenesses of a bucket.
func (x *index) put(bucket Key, all []likeness) {
	if len(all) == 0 {
		x.buckets.Remove(bucket)
		return
	}
	x.buckets.Add(bucket, all)
}

// forget drops the likeness of an answer that is no more.
func (x *index) forget(bucket, k Key) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.remove(bucket, k)
}

func (x *index) remove(bucket, k Key) {
	all, _ := x.buckets.Peek(bucket)
	i := slices.IndexFunc(all, func(l likeness) bool { return l.key == k })
	if i < 0 {
		return
	}
	x.bytes -= all[i].size()
	x.put(bucket, slices.Concat(all[:i], all[i+1:])) // what others look at stays
}

func (x *index) size() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.bytes
}
