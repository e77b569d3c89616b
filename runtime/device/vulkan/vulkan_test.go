//go:build vulkan

package vulkan

import (
	"testing"

	"github.com/lowpack/lowpack/runtime/device"
)

// TestList describes the devices of this machine, of which there must be one, and opens them only for what a probe
// finds.
func TestList(t *testing.T) {
	infos, err := device.Driver{List: list, Open: open}.Describe()
	if err != nil {
		t.Fatal(err)
	}
	if len(infos) == 0 {
		t.Fatal("no device")
	}
	if closed, err := list(); err != nil || len(closed) != len(infos) || closed[0].Probe != nil {
		t.Errorf("%v, %v", closed, err)
	}
	for _, i := range infos {
		t.Logf("%+v", i)
		if i.Memory < 1<<20 || i.Free > i.Memory || i.MaxRange < 1<<20 || len(i.Probe) != 5 {
			t.Errorf("%+v", i)
		}
	}
}
