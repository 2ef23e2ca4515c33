package usage

// Known is how many prices the book remembers.
func (b *Book) Known() int {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return len(b.known)
}
