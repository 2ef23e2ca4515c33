package e2e

import (
	"errors"
	"fmt"
	"net/http"
)

var errStill = errors.New("still so")

// get asks for a path with a key and returns the status.
func (g *gateway) get(path, key string) (int, error) {
	r, err := http.NewRequest(http.MethodGet, g.url+path, nil)
	if err != nil {
		return 0, err
	}
	r.Header.Set("Authorization", "Bearer "+key)
	response, err := g.client.Do(r)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

// has returns an error until the gateway knows all of the models.
func (g *gateway) has(models ...string) error {
	for _, m := range models {
		status, err := g.get("/v1/models/"+m, g.key)
		if err != nil {
			return err
		}
		if status != http.StatusOK {
			return fmt.Errorf("model %s: status %d", m, status)
		}
	}
	return nil
}

// accepts returns an error unless the gateway lets a key in.
func (g *gateway) accepts(key string) error {
	status, err := g.get("/v1/models", key)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("status %d", status)
	}
	return err
}
