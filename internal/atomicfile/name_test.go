package atomicfile

import (
	"errors"
	"runtime"
	"strings"
	"testing"
)

// TestWindowsNames: names that Windows would resolve to something else are rejected with the reason; others are
// accepted.
func TestWindowsNames(t *testing.T) {
	for why, names := range map[string][]string{
		"a device": {"NUL", "nul", "CON", "aux.txt", "COM1", "lpt9.tar.gz", "COM¹", "prn .x", "conin$", "CONOUT$.st",
			"nul ", "NUL."},
		"drops":          {"model.", "model ", "a. .", "...", " "},
		"cannot contain": {"a:b", "model::$DATA", "nul:", "a?b", "a*", "<a", "a>", `a"b`, "a|b", "a\tb", "a\x00b"},
		"": {"model.safetensors", "NULL", "null.txt", "console", "com", "com12", "lptx", "aux-1", ".con",
			"x.nul", "a b",
			".hidden", "..a", "Модель 模型 é", ".", ".."},
	} {
		for _, name := range names {
			err := windowsName(name)
			if why == "" && err != nil || why != "" && (err == nil || !strings.Contains(err.Error(), why)) {
				t.Errorf("%q: %v, want %q", name, err, why)
			}
		}
	}
}

// TestCheckName: on Windows such a name is a Failure for every kind of target; on other systems it is valid.
func TestCheckName(t *testing.T) {
	t.Chdir(t.TempDir())
	for what, check := range map[string]func(string) error{
		"Check":     Check,
		"CheckName": CheckName,
		"Create": func(target string) error {
			f, err := Create(OS, target)
			if err == nil {
				f.Abort()
			}
			return err
		},
		"Resume": func(target string) error {
			f, err := Resume(OS, target)
			if err == nil {
				f.Abort()
			}
			return err
		},
		"CreateDir": func(target string) error {
			d, err := CreateDir(OS, target)
			if err == nil {
				d.Abort()
			}
			return err
		},
	} {
		for _, target := range []string{"com1.st", "target."} {
			var failure *Failure
			err := check(target)
			refused := errors.As(err, &failure) && strings.Contains(err.Error(), "choose another name")
			if refused != (runtime.GOOS == "windows") || !refused && err != nil {
				t.Errorf("%s %q: %v", what, target, err)
			}
		}
	}
}
