package envoygateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

const (
	// lookAgain is how often HTTPRoutes are read without a change: some may be new, or the API server was away.
	lookAgain = 15 * time.Second
	// readWithin bounds one look at the HTTPRoutes.
	readWithin = 30 * time.Second
)

// Announce annotates marked HTTPRoutes of namespaces, or without any of all, with what Envoys are to have, until ctx
// ends. Envoy Gateway then translates again.
func (s *Server) Announce(ctx context.Context, client dynamic.Interface, namespaces []string) {
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	failed := ""
	for ctx.Err() == nil {
		now, _ := s.options.Plane.Content()
		err := announce(ctx, client, namespaces, now.Digest)
		if text := fmt.Sprint(err); err != nil && ctx.Err() == nil && text != failed {
			failed = text
			s.options.Log.Warn("Envoy Gateway could not be told of a change", zap.Error(err))
		} else if err == nil {
			failed = ""
		}
		s.await(ctx, lookAgain, func(digest string) bool { return digest != now.Digest })
	}
}

func announce(ctx context.Context, client dynamic.Interface, namespaces []string, revision string) error {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	routes := client.Resource(schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1",
		Resource: "httproutes"})
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"annotations": map[string]any{Revision: revision}}})
	if err != nil {
		return fmt.Errorf("writing an annotation: %w", err)
	}
	var errs []error
	for _, namespace := range namespaces {
		found, err := routes.Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			errs = append(errs, fmt.Errorf("reading HTTPRoutes: %w", err))
			continue
		}
		for _, r := range found.Items {
			if !marked(r) || r.GetAnnotations()[Revision] == revision {
				continue
			}
			_, err := routes.Namespace(r.GetNamespace()).Patch(ctx, r.GetName(), types.MergePatchType, patch,
				metav1.PatchOptions{})
			if err != nil {
				errs = append(errs, fmt.Errorf("annotating HTTPRoute %s/%s: %w", r.GetNamespace(), r.GetName(), err))
			}
		}
	}
	return errors.Join(errs...)
}

// marked reports whether a rule of an HTTPRoute leads to models.
func marked(r unstructured.Unstructured) bool {
	rules, _, _ := unstructured.NestedSlice(r.Object, "spec", "rules") // of another form: there are none
	for _, rule := range rules {
		fields, _ := rule.(map[string]any)
		name, _ := fields["name"].(string)
		if _, ok := Marked(name); ok {
			return true
		}
	}
	return false
}
