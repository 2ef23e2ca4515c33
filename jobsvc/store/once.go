package store

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// onceRoot is the prefix of the keys of members that are written once: below it, keys are like the records'.
const onceRoot = Root + "once/"

// onceKey returns the key for the members of a record that are written once.
func onceKey(key string) string { return onceRoot + key[len(Root):] }

// split returns the value as its own key holds it, and what has another: the members that Once names, those of them
// that say something.
func (k Kind[T]) split(value T) (small T, once map[string]any) {
	if k.Once == nil {
		return value, nil
	}
	once = map[string]any{}
	for name, member := range k.Once(&value) {
		v := reflect.ValueOf(member).Elem()
		if !v.IsZero() {
			once[name] = v.Interface()
			v.SetZero()
		}
	}
	return value, once
}

// join puts back the members that split has taken out. Text is the other key's value, or nil if there is none: the
// record is complete, as records of versions before 1.3 are.
func (k Kind[T]) join(r *Record[T], text []byte) error {
	if k.Once == nil || text == nil {
		return nil
	}
	var once map[string]json.RawMessage
	if err := json.Unmarshal(text, &once); err != nil {
		return err
	}
	r.once = slices.Sorted(maps.Keys(once))
	for name, member := range k.Once(&r.Value) {
		if v := once[name]; v != nil {
			if err := json.Unmarshal(v, member); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// putOnce writes what is written once, unless it is there as the record was read or created.
func (k Kind[T]) putOnce(t *Txn, key string, r *Record[T], once map[string]any) {
	names := slices.Sorted(maps.Keys(once))
	if len(names) == 0 || slices.Equal(names, r.once) {
		return
	}
	text, err := json.Marshal(once)
	switch {
	case err != nil:
		t.err = fmt.Errorf("write %s: %w", r.ID, err)
	case len(text) > MaxBytes:
		t.err = fmt.Errorf("write %s: the record has %d bytes, more than %d", r.ID, len(text), MaxBytes)
	}
	t.Do(clientv3.OpPut(onceKey(key), string(text)))
	t.done = append(t.done, func(int64) { r.once = names })
}

// delete removes a record, and what is written once of it.
func (k Kind[T]) delete(t *Txn, key string) {
	t.Do(clientv3.OpDelete(key))
	if k.Once != nil {
		t.Do(clientv3.OpDelete(onceKey(key)))
	}
}
