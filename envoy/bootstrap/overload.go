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

// Shares of the heap at which Envoy sheds load.
const (
	shrinkAt = 0.90
	refuseAt = 0.95 // new requests
	// Requests that are under way go on taking memory: a body without content-length is held as it comes, and nothing has
	// taken room for it. From resetAt on, Envoy resets streams of HTTP/2 that hold much, the largest first, and at fullAt
	// all of them. From abortAt on, it ends connections of HTTP/1 that send more. Answers go on.
	resetAt = 0.96
	abortAt = 0.98
	fullAt  = 1
	// muchHeld is the power of two of the bytes from which on a stream holds much.
	muchHeld = 20
)

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
		{Name: "envoy.overload_actions.shrink_heap", Triggers: onHeap(shrinkAt)},
		{Name: "envoy.overload_actions.stop_accepting_requests", Triggers: onHeap(refuseAt)},
		{Name: "envoy.overload_actions.reset_high_memory_stream", Triggers: []*overloadv3.Trigger{{Name: monitorHeap,
			TriggerOneof: &overloadv3.Trigger_Scaled{
				Scaled: &overloadv3.ScaledTrigger{ScalingThreshold: resetAt, SaturationThreshold: fullAt}}}}},
	}
	m.BufferFactoryConfig = &overloadv3.BufferFactoryConfig{MinimumAccountToTrackPowerOfTwo: muchHeld}
	m.LoadshedPoints = []*overloadv3.LoadShedPoint{
		{Name: "envoy.load_shed_points.http1_server_abort_dispatch", Triggers: onHeap(abortAt)}}
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

// onHeap triggers at a share of the heap.
func onHeap(share float64) []*overloadv3.Trigger {
	return []*overloadv3.Trigger{{Name: monitorHeap,
		TriggerOneof: &overloadv3.Trigger_Threshold{Threshold: &overloadv3.ThresholdTrigger{Value: share}}}}
}
