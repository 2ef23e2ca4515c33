package bootstrap

import (
	"fmt"
	"time"

	overloadv3 "github.com/envoyproxy/go-control-plane/envoy/config/overload/v3"
	connectionsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/resource_monitors/downstream_connections/v3"
	heapv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/resource_monitors/fixed_heap/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
)

const monitorHeap = "envoy.resource_monitors.fixed_heap"

// overloadManager keeps an Envoy from dying of too many connections or of too much memory: it refuses instead.
func overloadManager(o Options) (*overloadv3.OverloadManager, error) {
	connections := o.MaxConnections
	if connections == 0 {
		connections = DefaultMaxConnections
	}
	m := &overloadv3.OverloadManager{RefreshInterval: durationpb.New(250 * time.Millisecond)}
	err := addMonitor(m, "envoy.resource_monitors.global_downstream_max_connections",
		&connectionsv3.DownstreamConnectionsConfig{MaxActiveDownstreamConnections: connections})
	if err != nil || o.MaxHeapBytes == 0 {
		return m, err
	}
	if err := addMonitor(m, monitorHeap, &heapv3.FixedHeapConfig{MaxHeapSizeBytes: o.MaxHeapBytes}); err != nil {
		return nil, err
	}
	m.Actions = []*overloadv3.OverloadAction{
		heapAction("envoy.overload_actions.shrink_heap", 0.90),
		heapAction("envoy.overload_actions.stop_accepting_requests", 0.95),
	}
	return m, nil
}

func addMonitor(m *overloadv3.OverloadManager, name string, config proto.Message) error {
	typed, err := anypb.New(config)
	if err != nil {
		return fmt.Errorf("building the resource monitor %s: %w", name, err)
	}
	m.ResourceMonitors = append(m.ResourceMonitors, &overloadv3.ResourceMonitor{
		Name:       name,
		ConfigType: &overloadv3.ResourceMonitor_TypedConfig{TypedConfig: typed},
	})
	return nil
}

func heapAction(name string, share float64) *overloadv3.OverloadAction {
	return &overloadv3.OverloadAction{
		Name: name,
		Triggers: []*overloadv3.Trigger{{
			Name: monitorHeap,
			TriggerOneof: &overloadv3.Trigger_Threshold{
				Threshold: &overloadv3.ThresholdTrigger{Value: share},
			},
		}},
	}
}
