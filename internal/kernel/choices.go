package kernel

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/cpu"

	"github.com/lowpack/lowpack/internal/kernel/internal/asm"
	"github.com/lowpack/lowpack/pack"
)

// TablesVersion changes when thresholds or tunings that were measured before no longer say what is fastest: with a new
// way to multiply, or other kernels for one.
const TablesVersion = 4

// Identity says which CPUs measure the same choices.
type Identity struct {
	Vendor   string `json:"vendor"` // "" = unknown
	Family   int    `json:"family"`
	Model    int    `json:"model"` // of arm64: MIDR_EL1, 0 = unknown
	Features string `json:"features"`
}

// ThisIdentity identifies this CPU.
func ThisIdentity() Identity {
	have, features := detected()
	list := names(have)
	for f, name := range map[feature]string{vbmi: "vbmi", gfni: "gfni"} {
		if features&f != 0 {
			list = append(list, name)
		}
	}
	if cpu.X86.HasAMXTile && cpu.X86.HasAMXInt8 {
		list = append(list, string(AMX))
	}
	slices.Sort(list)
	c := Identity{tunedFor.Vendor, tunedFor.Family, tunedFor.Model, strings.Join(list, " ")}
	if asm.Arch == "arm64" {
		c.Vendor, c.Model = asm.Arch, midr()
	}
	return c
}

// midr is the main ID register of an arm64 CPU, as Linux shows it; 0 where it does not.
func midr() (id int) {
	text, err := os.ReadFile("/sys/devices/system/cpu/cpu0/regs/identification/midr_el1")
	if err == nil {
		fmt.Sscanf(string(text), "0x%x", &id)
	}
	return id
}

// String is part of a file name.
func (c Identity) String() string { return fmt.Sprintf("%s-%d-%d", c.Vendor, c.Family, c.Model) }

// Choices are what was measured on a CPU in place of the tables.
type Choices struct {
	CPU        Identity    `json:"cpu"`
	Tables     int         `json:"tables"`           // TablesVersion of the program that measured
	Date       string      `json:"date"`             // 2006-01-02
	Tool       string      `json:"tool"`             // that measured
	Tuning     string      `json:"tuning,omitempty"` // name; "" = that of the table
	Thresholds []Threshold `json:"thresholds"`
}

// taken is the date of those in force.
var taken string

// Take puts choices in the place of those of the tables; from says for people where they come from. It must not be
// called while matrices are bound or multiplied, and takes all of them or, with an error, none.
func Take(c *Choices, from string) error {
	if err := c.check(); err != nil {
		return err
	}
	list := slices.Clone(thresholds)
	for _, t := range c.Thresholds {
		i := slices.IndexFunc(list, func(u Threshold) bool { return t.same(&u) })
		if i < 0 || t.Tokens < 0 || t.Tokens > MaxThreshold {
			return fmt.Errorf("%w: %s on %s from %d tokens on: no such threshold, or not from 0 to %d",
				pack.ErrCorrupt, t.Way, t.ISA, t.Tokens, MaxThreshold)
		}
		list[i].Tokens, list[i].From = t.Tokens, from
	}
	if i := slices.IndexFunc(Tunings(), func(t Tuning) bool { return t.Name == c.Tuning }); i >= 0 {
		tuned, tunedWhy = Tunings()[i], from
	}
	inForce, taken = list, c.Date
	return nil
}

// Taken returns the date of the choices that Take put in the place of the tables; "" if there are none.
func Taken() string { return taken }

// check refuses choices for other CPUs or programs, or with a tuning that there is not.
func (c *Choices) check() error {
	switch here := ThisIdentity(); {
	case c.CPU != here:
		return fmt.Errorf("%w: measured on another CPU, %v with %s; this is %v with %s", pack.ErrUnsupported, c.CPU,
			c.CPU.Features, here, here.Features)
	case c.Tables != TablesVersion:
		return fmt.Errorf("%w: measured for version %d of the kernels' tables; this program has version %d",
			pack.ErrUnsupported, c.Tables, TablesVersion)
	case c.Tuning != "" && (tunedFor.Vendor == "" ||
		!slices.ContainsFunc(Tunings(), func(t Tuning) bool { return t.Name == c.Tuning })):
		return fmt.Errorf("%w: no tuning %q", pack.ErrCorrupt, c.Tuning)
	}
	return nil
}
