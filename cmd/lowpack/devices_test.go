package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/runtime/device"
)

// TestAsksForDevice: which command lines are about devices.
func TestAsksForDevice(t *testing.T) {
	for line, want := range map[string]bool{
		"lowpack":                              false,
		"lowpack devices":                      true,
		"lowpack run devices":                  false,
		"lowpack run a --device vulkan":        true,
		"lowpack run a --device cpu":           false,
		"lowpack run --device=auto a":          true,
		"lowpack run --device=cpu a":           false,
		"lowpack run a -p --device":            false,
		"lowpack run a -- --device vulkan":     false,
		"lowpack run a -p device=vulkan":       false,
		"lowpack verify a -device vulkan:1":    true,
		"lowpack serve a --device vulkan:1 -v": true,

		"lowpack bench a --device vulkan --model-only":  false,
		"lowpack bench a --model-only --device=vulkan":  false,
		"lowpack run a --device vulkan -- --model-only": true,
	} {
		if got := asksForDevice(strings.Fields(line)); got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
}

// TestDeviceFlag: words that name no device are wrong usage; a build without drivers says how to get the other one.
func TestDeviceFlag(t *testing.T) {
	c := cli.NewContext(nil, nil, nil)
	for _, word := range []string{"gpu", "vulkan:", "vulkan:x", "cuda:-1", "", "vulkan:99999"} {
		if checkDevice(c, word) == nil {
			t.Errorf("--device %q is accepted", word)
		}
	}
	for _, word := range []string{"cpu", "auto"} {
		if err := checkDevice(c, word); err != nil {
			t.Errorf("--device %s: %v", word, err)
		}
	}
	if err := checkDevice(c, "cuda:1"); len(device.Drivers()) == 0 &&
		(err == nil || !strings.Contains(err.Error(), "make lowpack-vulkan")) {
		t.Errorf("without drivers: %v", err)
	}
}

// TestDeviceLayersFlag: what divides a model between a device and the CPU needs a device, and a layer at least.
func TestDeviceLayersFlag(t *testing.T) {
	for line, want := range map[string]string{
		"run m --device-layers 3":                                "name the device with --device",
		"serve m --device cpu --device-layers 3":                 "name the device with --device",
		"verify m --device auto --device-layers 0":               "must be between 1 and",
		"bench m --device vulkan --device-layers 3 --model-only": "whole passes are counted",
	} {
		if code, out := inPlace(strings.Fields(line)...); code != 2 || !strings.Contains(out, want) {
			t.Errorf("%s: %d\n%s", line, code, out)
		}
	}
}

// TestBecomesTwin: the program becomes its twin beside it, with the same arguments; without one it says what is
// missing. A program that is the twin of one of another version says so, and does nothing.
func TestBecomesTwin(t *testing.T) {
	if runtime.GOOS == "windows" || len(device.Drivers()) > 0 {
		t.Skip("this program is the twin, or cannot become it")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "lowpack")
	build := exec.Command("go", "build", "-trimpath", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	do := func(env string, args ...string) (string, error) {
		c := exec.Command(program, args...)
		c.Env = append(os.Environ(), "PATH=", env)
		out, err := c.CombinedOutput()
		return string(out), err
	}
	ask := func() string {
		out, _ := do("", "run", "no such file", "--device", "vulkan:3") // fails where there is no twin
		return out
	}
	if got := ask(); !strings.Contains(got, "make lowpack-vulkan") {
		t.Errorf("without a twin: %s", got)
	}
	twin := "#!/bin/sh\necho twin \"$@\" of $" + envTwinOf + "\n"
	if err := os.WriteFile(filepath.Join(dir, twinName), []byte(twin), 0o755); err != nil {
		t.Fatal(err)
	}
	asked, own, _ := strings.Cut(strings.TrimSpace(ask()), " of ")
	if asked != "twin run no such file --device vulkan:3" {
		t.Errorf("with a twin: %s", asked)
	}
	if out, err := do(envTwinOf+"="+own, "version"); err != nil || !strings.Contains(out, "lowpack "+own) {
		t.Errorf("the twin of version %q: %v\n%s", own, err, out)
	}
	out, err := do(envTwinOf+"=0.0.1", "version")
	if err == nil || strings.Contains(out, "revision") || !strings.Contains(out, program+", which lowpack becomes") ||
		!strings.Contains(out, "is version "+own+", and lowpack is version 0.0.1: install the same version") {
		t.Errorf("the twin of another version: %v\n%s", err, out)
	}
}

// TestCheckTwin: only the twin of the same version goes on, and does not tell its children.
func TestCheckTwin(t *testing.T) {
	for of, good := range map[string]bool{"": true, fullVersion(): true, "0.0.1": false} {
		t.Setenv(envTwinOf, of)
		if err := checkTwin(); (err == nil) != good {
			t.Errorf("the twin of %q: %v", of, err)
		}
		if left, ok := os.LookupEnv(envTwinOf); ok {
			t.Errorf("%q is left", left)
		}
	}
}
