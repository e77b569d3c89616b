package verify

import (
	"context"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/plaindevice"
	"github.com/lowpack/lowpack/internal/testkit/race"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/runtime/device"
)

// TestDeviceLayers: golden outputs hold with a layer on a device and the others on the CPU, and the report says so.
func TestDeviceLayers(t *testing.T) {
	if race.Enabled {
		t.Skip("the device computes in one goroutine, which takes minutes here")
	}
	device.Register(plaindevice.Driver("plain", plaindevice.Options{}))
	r, err := Run(context.Background(), tinymodel.Path(t), Options{Level: Logits, Device: "plain", DeviceLayers: 1})
	if err != nil || !r.OK || !strings.HasSuffix(r.Device, "; 1 of 6 layers") {
		t.Errorf("%v, %+v", err, r)
	}
}
