package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/device"
	"github.com/lowpack/lowpack/runtime/engine"
)

// deviceKinds are the kinds of devices that have a driver in some build of the program.
var deviceKinds = []string{"vulkan", "cuda"}

var deviceName = regexp.MustCompile(`^(cpu|auto|(` + strings.Join(deviceKinds, "|") + `)(:[0-9]{1,4})?)$`)

// deviceFlag chooses what computes.
func deviceFlag(usage string) cli.Flag {
	return like(&cli.StringFlag{Name: "device", Usage: usage + ": cpu, auto, or as lowpack devices lists them",
		DefaultText: device.CPU, Action: checkDevice}, append([]string{device.CPU, device.Auto}, deviceKinds...)...)
}

// deviceLayersFlag divides a model between the device and the CPU.
func deviceLayersFlag() cli.Flag {
	const name = "device-layers"
	f := &cli.IntFlag{Name: name, Usage: "compute the last `N` layers and the output head on the device, the others " +
		"on the CPU; all if the model has fewer", DefaultText: "as many as fit its free memory"}
	f.Action = func(c *cli.Context, n int) error {
		if d := c.String("device"); d == "" || d == device.CPU {
			return usagef("--%s divides a model between a device and the CPU: name the device with --device", name)
		}
		return checkBetween(name, n, 1, maxDeviceLayers)
	}
	return f
}

// maxDeviceLayers bounds --device-layers: more than models have.
const maxDeviceLayers = 1 << 16

// noteLayers says how a model is divided between a device and the CPU.
func noteLayers(c *cli.Context, e *engine.Engine) {
	info, ok := e.DeviceInfo()
	n, all := e.DeviceLayers()
	switch {
	case !ok || n == all:
	case e.Options().DeviceLayers > 0:
		detail(c, fmt.Sprintf("%d of %d layers are on device %s, the others on the CPU", n, all, info.Name))
	default:
		note(c, fmt.Sprintf("device %s has room for %d of %d layers, and the CPU computes the others; a shorter "+
			"context or a smaller --kv-cache-type makes room for more", info.Name, n, all))
	}
}

// checkDevice refuses words that name no device, and devices for which this build has no driver, unless none is needed.
func checkDevice(c *cli.Context, name string) error {
	if !deviceName.MatchString(name) {
		return usagef("invalid --device %q: must be cpu, auto, %s, or one of these with a number, as in vulkan:1", name,
			strings.Join(deviceKinds, ", "))
	}
	if name == device.CPU || name == device.Auto || c.Bool(modelOnly) {
		return nil
	}
	return checkDriver(name)
}

// checkDriver says how to get the build that has the driver of a device.
func checkDriver(name string) error {
	kind, _, _ := strings.Cut(name, ":")
	if slices.ContainsFunc(device.Drivers(), func(d device.Driver) bool { return d.Kind == kind }) {
		return nil
	}
	return fmt.Errorf("%w: device %s: this program is static and has no drivers; %s has them: put it beside this one "+
		"or on the PATH (docs/INSTALL.md has its packages; make %[3]s builds it)", pack.ErrUnsupported, name, twinName)
}

// twinName is the program with drivers of devices: the same source, built with the tag vulkan. It needs the dynamic
// loader of the system, so this one is not it.
const twinName = "lowpack-vulkan"

// envTwinOf has the version of the program that becomes its twin.
const envTwinOf = "LOWPACK_TWIN_OF"

// checkTwin refuses to be the twin of a program of another version: a command line does the same with a device as
// without.
func checkTwin() error {
	other := os.Getenv(envTwinOf)
	os.Unsetenv(envTwinOf) // not for the processes that this one starts
	if other == "" {
		return nil
	}
	own := fullVersion()
	if other == own {
		return nil
	}
	path, err := os.Executable()
	if err != nil {
		path = twinName
	}
	return fmt.Errorf("%w: %s, which lowpack becomes for a device, is version %s, and lowpack is version %s: install "+
		"the same version of both (docs/INSTALL.md), or start %[2]s itself", pack.ErrUnsupported, path, own, other)
}

// becomeTwin replaces the process by the twin if the command line asks for a device that this build has no driver for.
// It returns where there is no twin: then the command says what is missing.
func becomeTwin(args []string) {
	if len(device.Drivers()) > 0 || !asksForDevice(args) {
		return
	}
	if twin := findTwin(); twin != "" {
		become(twin, args)
	}
}

// asksForDevice reports whether a command line needs devices.
func asksForDevice(args []string) (asks bool) {
	for i, word := range args {
		value, joined := strings.CutPrefix(strings.TrimLeft(word, "-"), "device=")
		switch {
		case i == 0:
		case word == "--":
			return asks
		case word == "--"+modelOnly || word == "-"+modelOnly:
			return false
		case i == 1 && word == "devices", joined && strings.HasPrefix(word, "-") && value != device.CPU:
			asks = true
		case (word == "--device" || word == "-device") && i+1 < len(args) && args[i+1] != device.CPU:
			asks = true
		}
	}
	return asks
}

// findTwin looks beside this program, then on the PATH; "" = there is none.
func findTwin() string {
	folders := filepath.SplitList(os.Getenv("PATH"))
	if own, err := os.Executable(); err == nil {
		folders = append([]string{filepath.Dir(own)}, folders...)
	}
	for _, folder := range folders {
		path := filepath.Join(folder, twinName)
		if info, err := os.Stat(path); filepath.IsAbs(folder) && err == nil && info.Mode()&0o111 != 0 && !info.IsDir() {
			return path
		}
	}
	return ""
}

func devicesCommand() *cli.Command {
	return &cli.Command{
		Name:  "devices",
		Usage: "list the devices that can compute in place of the CPU",
		Description: `Each device with its memory, its driver, what it does in hardware, and what a probe of its arithmetic has found: what
it does not compute exactly is computed in integers, so that the logits are those of the CPU, bit for bit.
docs/DEVICES.md says which models devices serve.

  lowpack devices
  lowpack run model.safetensors --device vulkan:0 -p "Once upon a time"`,
		UsageText: "lowpack devices [--json]",
		Flags:     []cli.Flag{jsonFlag()},
		Action: func(c *cli.Context) error {
			if err := wantArgs(c, 0, ""); err != nil {
				return err
			}
			return listDevices(c)
		},
	}
}

func listDevices(c *cli.Context) error {
	if len(device.Drivers()) == 0 {
		return checkDriver(deviceKinds[0])
	}
	infos := []device.Info{}
	for _, d := range device.Drivers() {
		list, err := d.Describe()
		if err != nil {
			note(c, fmt.Sprintf("no %s device answers; install its driver to use one: %v", d.Kind, err))
		}
		infos = append(infos, list...)
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, infos)
	}
	rows := [][]string{}
	for _, i := range infos {
		const gib = 1 << 30
		what := i.Device
		if i.Software {
			what += " (a CPU: --device auto does not take it)"
		}
		rows = append(rows, []string{i.Name, what}, []string{"", "driver: " + i.Driver}, []string{"",
			fmt.Sprintf("memory: %.1f GiB, of which %.1f GiB can be used", float64(i.Memory)/gib, float64(i.Free)/gib)})
		for _, line := range append(slices.Clone(i.Accelerated), i.Probe...) {
			rows = append(rows, []string{"", line})
		}
	}
	if len(rows) == 0 {
		note(c, "no device was found, so the CPU computes; install the driver of yours if you have one")
		return nil
	}
	table(c.App.Writer, nil, rows)
	return nil
}
