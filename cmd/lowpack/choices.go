package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/bench"
	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/pack"
)

// choicesSchema names the form of the file that keeps what `bench machine --save` measured.
const choicesSchema = "lowpack.choices/1"

// mostChoices bounds the file, in bytes.
const mostChoices = 1 << 16

// keptChoices is that file: what kernels choose on this CPU. Nothing but speed depends on it.
type keptChoices struct {
	Schema string `json:"schema"`
	kernel.Choices
}

// choicesFolder returns the folder of these files; tests do not read that of the user.
var choicesFolder = func() (string, error) {
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "lowpack", "choices"), err
}

// choicesFile returns the file for this CPU: machines that share a home need not be alike, nor virtual ones what they
// show of one CPU.
func choicesFile() (string, error) {
	folder, err := choicesFolder()
	cpu := kernel.ThisIdentity()
	return filepath.Join(folder, fmt.Sprintf("%v-%08x.json", cpu, crc32.ChecksumIEEE([]byte(cpu.Features)))), err
}

// usedChoices says what became of the file; everything is "" where there is none.
type usedChoices struct {
	File    string `json:"file"`
	Date    string `json:"date"`    // of the measurement
	Ignored string `json:"ignored"` // why the tables are used in its place, and of which file
}

// takeChoices makes the kernels choose by the file, if there is one and it is good.
func takeChoices() (used usedChoices) {
	path, err := choicesFile()
	if err != nil {
		return used // no cache, no file
	}
	c, err := readChoices(path)
	if errors.Is(err, fs.ErrNotExist) {
		return used
	}
	used.File = path
	if err == nil {
		err = kernel.Take(&c.Choices, "measured on this CPU, "+c.Date)
	}
	if err != nil {
		used.Ignored = filerr.Named(path, err).Error()
		return used
	}
	used.Date = c.Date
	return used
}

// remedy says that a file was ignored, and what to do; "" if it was not.
func (u *usedChoices) remedy() string {
	if u.Ignored == "" {
		return ""
	}
	return u.Ignored +
		"; kernels choose by the tables of this program: `lowpack bench machine --save` replaces the file"
}

func readChoices(path string) (*keptChoices, error) {
	data, err := readSmall(path, mostChoices)
	if err != nil {
		return nil, err
	}
	c := &keptChoices{}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(c); err != nil {
		return nil, fmt.Errorf("%w: %v", pack.ErrCorrupt, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("%w: more than one value", pack.ErrCorrupt)
	}
	if c.Schema != choicesSchema {
		return nil, fmt.Errorf("%w: the schema is %q; this program reads %s", pack.ErrUnsupported, c.Schema,
			choicesSchema)
	}
	if _, err := time.Parse(time.DateOnly, c.Date); err != nil {
		return nil, fmt.Errorf("%w: the date %q", pack.ErrCorrupt, c.Date)
	}
	return c, nil
}

// saveChoices keeps what was measured for the programs that this user starts on this CPU from now on.
func saveChoices(path string, r *bench.ChoicesReport) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return writeFile(path, func(w io.Writer) error {
		return printJSON(w, keptChoices{choicesSchema, *r.Kept(time.Now())})
	})
}
