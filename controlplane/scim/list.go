package scim

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// Bounds of a page.
const (
	defaultCount = 100
	maxCount     = 500
)

// A listing returns the resources of a type, by id. They are made only as they are needed.
type listing func(*directory) map[string]func() resource

func list(of listing) handler {
	return func(c *call) (answer, error) {
		start, count, err := page(c.Request)
		if err != nil {
			return answer{}, err
		}
		matches, err := filterOf(c.URL.Query().Get("filter"))
		if err != nil {
			return answer{}, err
		}
		d, err := c.read()
		if err != nil {
			return answer{}, err
		}
		all := of(d)
		total, found := 0, []any{}
		for _, id := range slices.Sorted(maps.Keys(all)) {
			if matches != nil && !matches(all[id]().folded()) {
				continue
			}
			total++
			if total >= start && len(found) < count {
				found = append(found, asked(c.Request, all[id]()))
			}
		}
		return answer{status: http.StatusOK, body: map[string]any{
			"schemas":      []string{"urn:ietf:params:scim:api:messages:2.0:ListResponse"},
			"totalResults": total, "startIndex": start, "itemsPerPage": len(found), "Resources": found}}, nil
	}
}

func get(of listing) handler {
	return func(c *call) (answer, error) { return c.one(of, c.PathValue("id")) }
}

// one answers with a resource.
func (c *call) one(of listing, id string) (answer, error) {
	d, err := c.read()
	if err != nil {
		return answer{}, err
	}
	found := of(d)[id]
	if found == nil {
		return answer{}, notFound(id)
	}
	return answer{status: http.StatusOK, body: asked(c.Request, found())}, nil
}

// page reads startIndex, which counts from 1, and count.
func page(r *http.Request) (start, count int, err error) {
	number := func(name string, otherwise int) int {
		given := r.URL.Query().Get(name)
		n, failed := strconv.Atoi(given)
		if given == "" {
			return otherwise
		}
		if failed != nil {
			err = bad("invalidValue", "The parameter "+name+" must be a number.")
		}
		return n
	}
	start, count = number("startIndex", 1), number("count", defaultCount)
	return max(start, 1), min(max(count, 0), maxCount), err
}

// asked returns what of a resource a request asks for (RFC 7644, section 3.9). Of an attribute it leaves out no part.
func asked(r *http.Request, all resource) resource {
	only, without := namesIn(r, "attributes"), namesIn(r, "excludedAttributes")
	maps.DeleteFunc(all, func(name string, _ any) bool {
		always := name == "id" || name == "schemas"
		name = configv1.Fold(name)
		return !always && (len(only) > 0 && !slices.Contains(only, name) || slices.Contains(without, name))
	})
	return all
}

func namesIn(r *http.Request, parameter string) []string {
	var names []string
	for name := range strings.SplitSeq(configv1.Fold(r.URL.Query().Get(parameter)), ",") {
		name = strings.TrimSpace(name)
		name = name[strings.LastIndex(name, ":")+1:]
		name, part, _ := strings.Cut(name, ".")
		if name != "" && (part == "" || parameter == "attributes") {
			names = append(names, name)
		}
	}
	return names
}
