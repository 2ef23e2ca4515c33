package respcache

import "github.com/hashicorp/golang-lru/v2/simplelru"

// A memory keeps the answers that were used last, up to a number of bytes. The cache's lock guards it.
type memory struct {
	answers *simplelru.LRU[Key, *Answer]
	bytes   int
	most    int
}

func newMemory(most int) *memory {
	m := &memory{most: most}
	const many = 1 << 30 // the bytes are the bound
	m.answers, _ = simplelru.NewLRU(many, func(_ Key, a *Answer) { m.bytes -= a.size() })
	return m
}

func (m *memory) find(k Key) *Answer {
	a, _ := m.answers.Get(k)
	return a
}

func (m *memory) keep(k Key, a *Answer) {
	m.answers.Remove(k)
	if a.size() > m.most {
		return
	}
	m.answers.Add(k, a)
	for m.bytes += a.size(); m.bytes > m.most; {
		m.answers.RemoveOldest()
	}
}
