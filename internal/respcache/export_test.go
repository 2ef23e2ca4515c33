package respcache

// Rested has the embeddings service of a cache asked again, as after a while.
func (c *Cache) Rested() { c.embedder.Load().until.Store(0) }
