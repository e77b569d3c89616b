package device_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/plaindevice"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/device"
)

// named is an open device that has a name.
type named struct {
	*plaindevice.Device
	name string
}

func (n named) Info() device.Info { return device.Info{Name: n.name, Probe: []string{"exact"}} }

// TestBest: auto opens the first device that is not a CPU and that can be opened, and no other one; where there is none
// the reason is told. A description opens all of them.
func TestBest(t *testing.T) {
	var opened []string
	errBusy, errAbsent := errors.New("busy"), errors.New("absent")
	driver := func(kind string, busy int, list ...device.Info) device.Driver {
		return device.Driver{Kind: kind,
			List: func() ([]device.Info, error) {
				if list == nil {
					return nil, errAbsent
				}
				return slices.Clone(list), nil
			},
			Open: func(i int) (device.Backend, error) {
				name := fmt.Sprintf("%s:%d", kind, i)
				opened = append(opened, name)
				if i < busy {
					return nil, errBusy
				}
				return named{plaindevice.New(plaindevice.Options{}), name}, nil
			}}
	}
	if _, err := device.BestOf(nil); !errors.Is(err, pack.ErrUnsupported) {
		t.Errorf("without drivers: %v", err)
	}
	var drivers []device.Driver
	cpu, gpu := device.Info{Software: true}, device.Info{}
	for _, c := range []struct {
		driver device.Driver
		opened string
		best   string
		want   error
	}{
		{driver("absent", 0), "", "", errAbsent},
		{driver("cpus", 0, cpu, cpu), "", "", pack.ErrUnsupported},
		{driver("busy", 2, cpu, gpu), "busy:1", "", errBusy},
		{driver("some", 2, cpu, gpu, gpu, gpu), "busy:1 some:1 some:2", "some:2", nil},
	} {
		opened = nil
		drivers = append(drivers, c.driver)
		b, err := device.BestOf(drivers)
		if got := strings.Join(opened, " "); !errors.Is(err, c.want) || got != c.opened ||
			err == nil && b.Info().Name != c.best {
			t.Errorf("%s: opened %q, %v", c.driver.Kind, got, err)
		}
	}
	infos, err := drivers[len(drivers)-1].Describe()
	if err != nil || len(infos) != 4 || infos[1].Probe[0] != errBusy.Error() || infos[3].Name != "some:3" {
		t.Errorf("%+v, %v", infos, err)
	}
}
