package responses

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/modelgate/modelgate/internal/httpapi"
	"github.com/modelgate/modelgate/jobsvc/rest"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// maxAdded is how many items one request may add to a conversation, as at OpenAI.
const maxAdded = 20

// A conversation is OpenAI's object.
type conversation struct {
	ID        string            `json:"id"`
	Object    string            `json:"object"` // conversation, or conversation.deleted
	CreatedAt int64             `json:"created_at,omitzero"`
	Metadata  map[string]string `json:"metadata,omitempty"`
	Deleted   bool              `json:"deleted,omitempty"`
}

func writeConversation(w http.ResponseWriter, c *store.Record[Conversation]) error {
	return httpapi.WriteJSON(w, http.StatusOK, struct {
		conversation
		Metadata map[string]string `json:"metadata"`
	}{conversation{ID: c.ID, Object: "conversation", CreatedAt: c.Value.CreatedAt}, c.Value.Metadata})
}

// newItems takes the items of a request.
func newItems(o *rest.Object) []json.RawMessage {
	var items []json.RawMessage
	for _, v := range o.Array("items", maxAdded) {
		items = append(items, json.RawMessage(v))
	}
	checkItems(o, "items", items)
	return items
}

func (s *Service) createConversation(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	settings, err := s.settings()
	if err != nil {
		return err
	}
	o, _, err := rest.ReadObject(w, r, maxBody)
	if err != nil {
		return err
	}
	items, metadata := newItems(o), o.Metadata()
	o.Done()
	if err := o.Err(); err != nil {
		return err
	}
	if items, err = known(items, nil, "items"); err != nil {
		return err
	}
	if metadata == nil {
		metadata = map[string]string{}
	}
	made := &store.Record[Conversation]{Tenant: c.Tenant, ID: Conversations.NewID(), Value: Conversation{
		Key: c.Key, CreatedAt: s.Now().Unix(), Metadata: metadata}}
	t := s.Store.BeginCreation()
	t.Within(c.Bounds)
	undo, done, err := s.put(r.Context(), t, made, settings.Sealer, identified(items))
	if err != nil {
		return err
	}
	if err := t.Commit(r.Context()); err != nil {
		undo()
		return err
	}
	done()
	return writeConversation(w, made)
}

func (s *Service) retrieveConversation(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	found, err := s.findConversation(r.Context(), c.Tenant, r.PathValue("id"))
	if err != nil {
		return err
	}
	return writeConversation(w, found)
}

// updateConversation replaces the metadata.
func (s *Service) updateConversation(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	o, _, err := rest.ReadObject(w, r, maxBody)
	if err != nil {
		return err
	}
	if !o.Has("metadata") {
		o.Missing("metadata")
	}
	metadata := o.Metadata()
	o.Done()
	if err := o.Err(); err != nil {
		return err
	}
	found, err := s.findConversation(r.Context(), c.Tenant, r.PathValue("id"))
	if err != nil {
		return err
	}
	err = s.change(r.Context(), found, c.Bounds, func(items []json.RawMessage) ([]json.RawMessage, error) {
		found.Value.Metadata = metadata
		return items, nil
	})
	if err != nil {
		return err
	}
	return writeConversation(w, found)
}

func (s *Service) removeConversation(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	found, err := s.findConversation(r.Context(), c.Tenant, r.PathValue("id"))
	if err == nil {
		err = s.dropConversation(r.Context(), found)
	}
	if err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusOK, conversation{ID: found.ID, Object: "conversation.deleted", Deleted: true})
}

// itemsOf returns a conversation with its items.
func (s *Service) itemsOf(r *http.Request, c rest.Caller) (*store.Record[Conversation], []json.RawMessage, error) {
	settings, err := s.settings()
	if err != nil {
		return nil, nil, err
	}
	found, err := s.findConversation(r.Context(), c.Tenant, r.PathValue("id"))
	if err != nil {
		return nil, nil, err
	}
	items, err := s.conversationItems(r.Context(), found, settings.Sealer)
	return found, items, err
}

func (s *Service) listItems(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	_, items, err := s.itemsOf(r, c)
	if err != nil {
		return err
	}
	return writePage(w, r, items)
}

func (s *Service) addItems(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	o, _, err := rest.ReadObject(w, r, maxBody)
	if err != nil {
		return err
	}
	if !o.Has("items") {
		o.Missing("items")
	}
	items := newItems(o)
	o.Done()
	if err := o.Err(); err != nil {
		return err
	}
	found, err := s.findConversation(r.Context(), c.Tenant, r.PathValue("id"))
	if err != nil {
		return err
	}
	var added []json.RawMessage
	err = s.change(r.Context(), found, c.Bounds, func(before []json.RawMessage) ([]json.RawMessage, error) {
		more, err := known(items, before, "items")
		if err != nil {
			return nil, err
		}
		added = identified(more)
		all := slices.Concat(before, added)
		return all, fits("items", size(all))
	})
	if err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusOK, listOf(added, false))
}

func (s *Service) retrieveItem(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	_, items, err := s.itemsOf(r, c)
	if err != nil {
		return err
	}
	at := position(items, r.PathValue("item"))
	if at < 0 {
		return notFound("Item", r.PathValue("item"))
	}
	return httpapi.WriteJSON(w, http.StatusOK, items[at])
}

func (s *Service) removeItem(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	found, err := s.findConversation(r.Context(), c.Tenant, r.PathValue("id"))
	if err != nil {
		return err
	}
	err = s.change(r.Context(), found, nil, func(items []json.RawMessage) ([]json.RawMessage, error) {
		at := position(items, r.PathValue("item"))
		if at < 0 {
			return nil, notFound("Item", r.PathValue("item"))
		}
		return slices.Delete(items, at, at+1), nil
	})
	if err != nil {
		return err
	}
	return writeConversation(w, found)
}
