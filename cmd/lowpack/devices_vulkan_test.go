//go:build vulkan

package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/runtime/device"
	"github.com/lowpack/lowpack/verify"
)

// TestTwin: the build with drivers lists the device, verifies the golden outputs on it and names it in the report, and
// writes the text that the CPU writes.
func TestTwin(t *testing.T) {
	do := func(args ...string) string {
		t.Helper()
		var out, notes bytes.Buffer
		if code := Main(append([]string{"lowpack"}, args...), strings.NewReader(""), &out, &notes); code != 0 {
			t.Fatalf("%v: exit code %d\n%s%s", args, code, &out, &notes)
		}
		return out.String()
	}
	var infos []device.Info
	if err := json.Unmarshal([]byte(do("devices", "--json")), &infos); err != nil || len(infos) == 0 ||
		len(infos[0].Probe) == 0 {
		t.Fatalf("%v, %v", infos, err)
	}
	path := tinymodel.Path(t)
	var report verify.Report
	if err := json.Unmarshal([]byte(do("verify", path, "--device", "vulkan:0", "--json")), &report); err != nil ||
		!report.OK ||
		!strings.Contains(report.Device, infos[0].Device) {
		t.Errorf("%v; device %q", err, report.Device)
	}
	prompt := []string{"run", path, "-p", "Once upon a time", "-n", "5", "--no-stats"}
	cpu, gpu := do(prompt...), do(append(prompt, "--device", "vulkan:0")...)
	if cpu != gpu || cpu == "" {
		t.Errorf("%q on the device, %q on the CPU", gpu, cpu)
	}
	if both := do(append(prompt, "--device", "vulkan:0", "--device-layers", "2")...); both != cpu {
		t.Errorf("%q with 2 layers on the device, %q on the CPU", both, cpu)
	}
}
