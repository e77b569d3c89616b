//go:build vulkan

package vulkan

import (
	"testing"
)

// TestList describes the devices of this machine, of which there must be one.
func TestList(t *testing.T) {
	infos, err := list()
	if err != nil {
		t.Fatal(err)
	}
	if len(infos) == 0 {
		t.Fatal("no device")
	}
	for _, i := range infos {
		t.Logf("%+v", i)
		if i.Memory < 1<<20 || i.Free > i.Memory || i.MaxRange < 1<<20 || len(i.Probe) != 4 {
			t.Errorf("%+v", i)
		}
	}
}
