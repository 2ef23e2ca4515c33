package reported

import "github.com/modelgate/modelgate/internal/jsonwalk"

// readCounts reads an object of counts and of objects of counts, as most are. It is false if there is a list, which
// only a Reader reads.
func (u *Usage) readCounts(object []byte) bool {
	if len(object) == 0 || object[0] != '{' {
		return false
	}
	c := counts{usage: u, data: object}
	c.object(0, 0, 1)
	return !c.list
}

type counts struct {
	usage *Usage
	data  []byte
	path  [maxPath]byte
	list  bool
}

// object reads the object at a position and a depth, whose path has a length.
func (c *counts) object(at, size, depth int) int {
	if size > 0 {
		c.path[size] = '.'
		size++
	}
	return jsonwalk.Object(c.data, at, func(name, nameEnd, start int) int {
		first := c.data[start]
		inside := c.data[name+1 : nameEnd-1]
		c.list = c.list || first == '['
		if first == '[' || len(inside) > maxToken || depth == maxLevel || size+len(inside)+1 >= maxPath {
			return jsonwalk.Value(c.data, start)
		}
		path := size + copy(c.path[size:], inside)
		if first == '{' {
			return c.object(start, path, depth+1)
		}
		end := jsonwalk.Value(c.data, start)
		token, text := c.data[start:end], first == '"'
		if text {
			token = token[1 : len(token)-1]
		}
		if len(token) <= maxToken {
			c.usage.take(c.path[:path], token, text)
		}
		return end
	})
}
